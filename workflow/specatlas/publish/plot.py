"""Speedups as dots with intervals, drawn as SVG by us: deterministic, offline, readable without colour."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from specatlas.analysis.schema import Board, Row, Speedup
from specatlas.publish import numbers
from specatlas.publish.columns import CLASS_NAMES
from specatlas.publish.links import Links, anchor_of, title_of
from specatlas.records.schema import Verdict

ROW_HEIGHT = 26
TOP, BOTTOM, MARGIN = 34, 46, 12
PLOT_WIDTH, VALUE_WIDTH = 520, 230
CHARACTER_WIDTH = 7.4
LONGEST_LABEL = 34
MOST_TICKS = 8
SHAPES = {"draft_centric": "circle", "model_centric": "square", "control": "diamond"}


@dataclass(frozen=True)
class Axis:
    """Maps speedups to pixels."""

    low: float
    high: float
    ticks: tuple[float, ...]
    left: float

    def x(self, value: float) -> float:
        """Pixel of a speedup, from the left edge."""
        return self.left + PLOT_WIDTH * (value - self.low) / (self.high - self.low)


def speedup_plot(board: Board, rows: Sequence[Row], links: Links) -> str:
    """The speedups of `rows`, in their order, as an inline SVG; empty if no row has one.

    A wrong output's speed is no speed at all, so such rows are left to the tables.
    """
    drawn = [(row, row.speedup) for row in rows if row.speedup and row.verdict is not Verdict.WRONG]
    if not drawn:
        return ""
    labels = [_label(row) for row, _ in drawn]
    left = MARGIN + CHARACTER_WIDTH * max(len(label) for label in labels) + 12
    axis = make_axis([speedup for _, speedup in drawn], left)
    width, height = left + PLOT_WIDTH + VALUE_WIDTH, TOP + ROW_HEIGHT * len(drawn) + BOTTOM
    title_id = f"{anchor_of(board)}-plot-title"
    parts = [
        Markup(
            '<svg class="atlas-plot" viewBox="0 0 {:.0f} {}" width="{:.0f}" height="{}" role="group"'
            ' aria-labelledby="{}" xmlns="http://www.w3.org/2000/svg">'
        ).format(width, height, width, height, title_id),
        Markup('<title id="{}">Speedup over plain decoding with 95 % intervals: {}</title>').format(
            title_id, title_of(board)
        ),
        _grid(axis, TOP + ROW_HEIGHT * len(drawn)),
        *(_mark(row, speedup, axis, TOP + ROW_HEIGHT * (place + 0.5), links)
          for place, (row, speedup) in enumerate(drawn)),
        _legend(height, left),
        Markup("</svg>"),
    ]  # fmt: skip
    return Markup("\n").join(parts)


def make_axis(speedups: Sequence[Speedup], left: float) -> Axis:
    """An axis that holds every interval and 1.0, between round ticks."""
    values = [1.0, *(value for speedup in speedups for value in _values(speedup))]
    low, high = min(values), max(values)
    step = _round_step((high - low) or 0.1)
    first, last = math.floor(low / step), math.ceil(high / step)
    first, last = (first - 1, last + 1) if first == last else (first, last)
    return Axis(first * step, last * step, tuple(round(step * n, 6) for n in range(first, last + 1)), left)


def _round_step(span: float) -> float:
    """The smallest of 1, 2, 5 × a power of ten that needs few enough ticks."""
    power = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= MOST_TICKS)


def _values(speedup: Speedup) -> tuple[float, ...]:
    """The value and, where there is one, the ends of its interval."""
    interval = speedup.interval
    return (speedup.ratio_of_sums,) if interval is None else (speedup.ratio_of_sums, interval.low, interval.high)


def _label(row: Row) -> str:
    return row.name if len(row.name) <= LONGEST_LABEL else row.name[: LONGEST_LABEL - 1] + "…"


def _grid(axis: Axis, bottom: float) -> Markup:
    """Tick lines and labels; plain decoding's 1.00× stands out by weight and by name."""
    parts = []
    for tick in axis.ticks:
        x = axis.x(tick)
        parts.append(Markup('<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(x, TOP, bottom))
        parts.append(
            Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{:g}×</text>').format(
                x, bottom + 16, tick
            )
        )
    one = axis.x(1.0)
    parts.append(Markup('<line class="one" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>').format(one, TOP - 8, bottom))
    parts.append(
        Markup('<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">plain decoding</text>').format(one, TOP - 14)
    )
    return Markup("\n").join(parts)


def _mark(row: Row, speedup: Speedup, axis: Axis, y: float, links: Links) -> Markup:
    """One method: name, interval, marker and value, with the whole reading as a tooltip."""
    state = _state(row)
    value = f"{numbers.times(speedup.ratio_of_sums)} {numbers.interval(speedup.interval)}"
    reading = f"{row.name} ({CLASS_NAMES.get(row.method_class, row.method_class)}, {state or 'ranked'}): {value}"
    name = Markup('<text class="name" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>').format(
        axis.left - 10, y + 4, _label(row)
    )
    page = links.method(row.method)
    if page:
        name = Markup('<a href="{}">{}</a>').format(page, name)
    return Markup('<g class="mark {}{}"><title>{}</title>{}{}{}{}</g>').format(
        row.method_class,
        "" if row.ranked else " hollow",
        reading,
        name,
        _whiskers(speedup, axis, y),
        marker(SHAPES.get(row.method_class, "circle"), axis.x(speedup.ratio_of_sums), y),
        Markup('<text class="value" x="{:.1f}" y="{:.1f}">{}</text>').format(
            axis.left + PLOT_WIDTH + 12, y + 4, f"{value} {state}".strip()
        ),
    )


def _state(row: Row) -> str:
    """Why the row stands apart, in a word; empty for a ranked one."""
    if row.ranked:
        return ""
    if row.method_class == "control":
        return "control"
    return "not ranked" if row.lossless else "lossy"


def _whiskers(speedup: Speedup, axis: Axis, y: float) -> Markup:
    """The interval as a line with end strokes; nothing where there is none."""
    if speedup.interval is None:
        return Markup()
    path = '<path class="interval" d="M{0:.1f} {2:.1f}V{3:.1f}M{0:.1f} {4:.1f}H{1:.1f}M{1:.1f} {2:.1f}V{3:.1f}"/>'
    low, high = axis.x(speedup.interval.low), axis.x(speedup.interval.high)
    return Markup(path).format(low, high, y - 4, y + 4, y)


def marker(shape: str, x: float, y: float) -> Markup:
    """A marker whose shape alone tells the class."""
    if shape == "square":
        return Markup('<rect class="dot" x="{:.1f}" y="{:.1f}" width="9" height="9"/>').format(x - 4.5, y - 4.5)
    if shape == "diamond":
        return Markup('<path class="dot" d="M{:.1f} {:.1f}l6 6l-6 6l-6 -6z"/>').format(x, y - 6)
    return Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="5"/>').format(x, y)


def _legend(height: float, left: float) -> Markup:
    """What the shapes mean, and what a hollow one does."""
    y, x, parts = height - 10, left, []
    for key, shape in SHAPES.items():
        text = CLASS_NAMES[key]
        parts.append(Markup('<g class="mark {}">{}</g>').format(key, marker(shape, x + 6, y - 4)))
        parts.append(Markup('<text class="tick" x="{:.1f}" y="{:.1f}">{}</text>').format(x + 16, y, text))
        x += 30 + CHARACTER_WIDTH * len(text)
    parts.append(Markup('<text class="tick" x="{:.1f}" y="{:.1f}">hollow: not ranked</text>').format(x, y))
    return Markup("\n").join(parts)

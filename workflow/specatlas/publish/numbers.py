"""Numbers as people read them. A missing number is never shown as 0: callers show a dash and the reason."""

from specatlas.analysis.schema import Interval

GIBI = 1 << 30
MEBI = 1 << 20


def times(value: float) -> str:
    """A ratio, e.g. `1.53×`."""
    return f"{value:.2f}×"


def interval(value: Interval | None) -> str:
    """A 95 % interval of a ratio, e.g. `[1.47, 1.60]`; a single prompt has none."""
    if value is None:
        return "(one prompt: no interval)"
    return f"[{value.low:.2f}, {value.high:.2f}]"


def percent(value: float) -> str:
    """A share, e.g. `12.5 %`."""
    return f"{100 * value:.1f} %".replace("-", "−")


def rate(value: float) -> str:
    """Tokens per second."""
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def signed(value: float) -> str:
    """A change, with its sign."""
    return f"{value:+.3f}".replace("-", "−")


def memory(value: float) -> str:
    """Bytes as MiB or GiB."""
    return f"{value / GIBI:.2f} GiB" if value >= GIBI else f"{value / MEBI:.0f} MiB"


def count(value: float) -> str:
    """A whole number with thousands separated, e.g. `12,345`."""
    return f"{value:,.0f}"


def parameters(value: float) -> str:
    """A number of parameters, e.g. `1.2 M`."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return count(value)


def rank_range(rank: tuple[int, int]) -> str:
    """The ranks that the data allow, e.g. `2–4`, or `1` where there is only one."""
    best, worst = rank
    return str(best) if best == worst else f"{best}–{worst}"

"""Boards as sections of the leaderboard: who is ranked, who stands apart and why, and the figures by category."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specatlas.analysis.schema import Board, CategoryRow, Row
from specatlas.catalog.discovery import Catalog
from specatlas.publish import columns, numbers
from specatlas.publish.cells import Cell, Header, Table, TableRow, missing, speedup
from specatlas.publish.columns import Column
from specatlas.publish.links import Links, anchor_of, title_of
from specatlas.publish.plot import speedup_plot
from specatlas.records.schema import UnitStatus, Verdict

# Upper bounds of the heat table's shades; the value itself stands in every cell, so the shade only helps the eye.
HEAT_BOUNDS = (0.8, 0.95, 1.05, 1.25, 1.6, 2.2)


@dataclass(frozen=True)
class Groups:
    """A board's rows, each in exactly one group."""

    ranked: tuple[Row, ...]
    unranked: tuple[Row, ...]
    lossy: tuple[Row, ...]
    controls: tuple[Row, ...]
    without_numbers: tuple[Row, ...]


@dataclass(frozen=True)
class BoardSection:
    """One board as the leaderboard shows it."""

    board: Board
    anchor: str
    title: str
    hardware: str
    software: str
    settings: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    heat: Table | None
    plot: str
    unmeasured: tuple[str, ...]


def group_rows(rows: Iterable[Row]) -> Groups:
    """Puts every row where it is fair to compare it: no lossy row, control or failure among the ranked ones.

    A row whose verdict is `wrong` is not lossy by design: it stands with the unranked rows, not the lossy ones.
    """
    groups: dict[str, list[Row]] = {name: [] for name in Groups.__annotations__}
    for row in rows:
        if row.status is not UnitStatus.OK:
            name = "without_numbers"
        elif row.method_class == "control":
            name = "controls"
        elif row.ranked:
            name = "ranked"
        elif row.verdict is not Verdict.WRONG and (row.verdict is Verdict.LOSSY or not row.lossless):
            name = "lossy"
        else:
            name = "unranked"
        groups[name].append(row)
    return Groups(**{name: tuple(sorted(found, key=_order)) for name, found in groups.items()})


def _order(row: Row) -> tuple[Any, ...]:
    value = row.speedup.ratio_of_sums if row.speedup else float("-inf")
    return (row.rank or (1 << 30, 1 << 30), -value, row.method)


def make_table(
    anchor: str, caption: str, parts: Sequence[Column], rows: Sequence[Row], links: Links, note: str
) -> Table:
    """A table with one row a method."""
    return Table(
        anchor=anchor,
        caption=caption,
        headers=tuple(column.header for column in parts),
        rows=tuple(table_row(row, tuple(column.cell(row, links) for column in parts)) for row in rows),
        note=note,
    )


def table_row(row: Row, cells: tuple[Cell, ...]) -> TableRow:
    """A table row that the filters can judge."""
    return TableRow(cells, row.method_class, row.verdict.value if row.verdict else row.status.value)


def board_section(board: Board, catalog: Catalog) -> BoardSection:
    """Everything that the leaderboard shows of one board."""
    links, anchor, groups = Links(catalog), anchor_of(board), group_rows(board.rows)
    measured = {row.method for row in board.rows}
    return BoardSection(
        board=board,
        anchor=anchor,
        title=title_of(board),
        hardware=hardware_line(board),
        software=software_line(board),
        settings=setting_pairs(board.effective_settings),
        tables=_tables(groups, anchor, links),
        heat=heat_table(board, groups, links),
        plot=speedup_plot(board, groups.ranked + groups.lossy + groups.controls + groups.unranked, links),
        unmeasured=tuple(method.card.slug for method in catalog.runnable() if method.card.slug not in measured),
    )


def _tables(groups: Groups, anchor: str, links: Links) -> tuple[Table, ...]:
    """The board's tables, without the empty ones; the ranked one always stands, so that its absence is explained."""
    plans = (
        ("ranked", "Ranked", columns.RANKED, groups.ranked, ""),
        ("unranked", "Measured, not ranked", columns.UNRANKED, groups.unranked,
         "These rows have figures, but something keeps them from competing; each says what."),
        ("lossy", "Lossy methods, ranked apart", columns.LOSSY, groups.lossy,
         "These change the output by design: read their speedup only beside the quality columns."),
        ("controls", "Controls", columns.CONTROLS, groups.controls,
         "Not competitors: they test the measurement. A twin of plain decoding must show 1.00× within its interval."),
        ("without-numbers", "Failed or refused", columns.WITHOUT_NUMBERS, groups.without_numbers,
         "These units ended without numbers; the reason is the record's own."),
    )  # fmt: skip
    return tuple(
        make_table(f"{anchor}-{name}", caption, parts, rows, links, note)
        for name, caption, parts, rows, note in plans
        if rows or name == "ranked"
    )


def hardware_line(board: Board) -> str:
    """The machine in one line: no figure of a board may be read without it."""
    environment = board.environment
    parts = [environment.accelerator] if environment.accelerator else []
    parts.append(f"{environment.cpu}, {environment.cores} cores, {environment.threads} threads")
    parts.append(f"{numbers.memory(environment.memory_bytes)} memory, device {environment.device}")
    return "; ".join(parts)


def software_line(board: Board) -> str:
    """Python and packages in one line."""
    environment = board.environment
    packages = [f"{name} {version}" for name, version in sorted(environment.packages.items())]
    return ", ".join([f"Python {environment.python}", *packages])


def setting_pairs(settings: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Settings as (name, value) pairs for people."""
    return tuple((name.replace("_", " "), _setting(value)) for name, value in settings.items())


def _setting(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_setting(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_setting(part) for part in value) or "none"
    return str(value)


def heat_table(board: Board, groups: Groups, links: Links) -> Table | None:
    """Speedup and acceptance length of every method on every category; None if the board has no categories."""
    rows = [row for row in groups.ranked + groups.unranked + groups.lossy + groups.controls if row.by_category]
    categories = list(dict.fromkeys(part.category for row in rows for part in row.by_category))
    if not categories:
        return None
    headers = [
        Header(f"category_{position}", name.replace("_", " "), "", True, "descending")
        for position, name in enumerate(categories)
    ]
    body = []
    for row in rows:
        found = {part.category: part for part in row.by_category}
        cells = [columns.method_cell(row, links), *(_heat_cell(found.get(category)) for category in categories)]
        body.append(table_row(row, tuple(cells)))
    return Table(
        anchor=f"{anchor_of(board)}-categories",
        caption="Speedup by prompt category",
        headers=(columns.METHOD.header, *headers),
        rows=tuple(body),
        note="Speedup, its 95 % interval and the acceptance length (AL). Few prompts a category make wide intervals.",
    )


def _heat_cell(part: CategoryRow | None) -> Cell:
    if part is None:
        return missing("The record has no prompts of this category.")
    if part.speedup is None:
        return missing("The record has no times to compare on this category.")
    shade = f"heat-{sum(part.speedup.ratio_of_sums >= bound for bound in HEAT_BOUNDS)}"
    cell = speedup(part.speedup, "", css=shade)
    length = "" if part.acceptance_length is None else f" · AL {part.acceptance_length:.2f}"
    return replace(cell, detail=cell.detail + length)

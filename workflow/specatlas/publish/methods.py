"""Method pages as data: the card, what it means for a reader, and our results on every board."""

from dataclasses import dataclass

from specatlas.analysis.schema import Board, Boards, CategoryRow, Row
from specatlas.catalog.card import Card, HyperParameter, Losslessness, Needs, Paper, Status
from specatlas.catalog.discovery import Catalog
from specatlas.publish import columns, numbers
from specatlas.publish.boards import table_row
from specatlas.publish.cells import Cell, Header, Table, TableRow, missing, number, speedup
from specatlas.publish.links import Links, anchor_of, external, title_of
from specatlas.records.schema import UnitStatus

LOSSLESSNESS = {
    Losslessness.EXACT: "the same tokens as plain decoding",
    Losslessness.DISTRIBUTION: "the target's distribution",
    Losslessness.LOSSY: "lossy: the output may differ from the target's",
    Losslessness.UNSUPPORTED: "not supported",
}
STATUS_ICONS = {Status.RUNNABLE: "✓", Status.MODELLED: "≈", Status.CATALOGUED: "○"}
NEEDS = {
    "draft_model": "a draft model",
    "datastore": "a datastore",
    "hidden_states": "the target's hidden states",
    "layer_access": "access to the target's layers",
}
BOARD = Header("board", "Board", "Target, machine, prompts and settings; figures of different boards do not compare.")
RESULT_COLUMNS = (columns.RANK, *columns.FIGURES)


@dataclass(frozen=True)
class Result:
    """Our result on one board."""

    board: Board
    row: Row
    title: str
    anchor: str
    categories: Table | None
    positions: Table | None


@dataclass(frozen=True)
class MethodPage:
    """Everything that a method's page shows."""

    card: Card
    class_name: str
    atlas_place: str
    survey_place: str | None
    needs: tuple[str, ...]
    greedy: str
    sampling: str
    results: tuple[Result, ...]
    table: Table | None
    failures: Table | None
    flagged: tuple[Result, ...]


def method_page(card: Card, boards: Boards, catalog: Catalog) -> MethodPage:
    """The page of one method, seen from the folder `methods/`."""
    links = Links(catalog, root="../")
    found = [(board, row) for board in boards.boards for row in board.rows if row.method == card.slug]
    results = tuple(_result(board, row) for board, row in found)
    return MethodPage(
        card=card,
        class_name=columns.CLASS_NAMES[card.method_class.value],
        atlas_place=links.place_trail(card.place.atlas),
        survey_place=links.place_trail(card.place.survey) if card.place.survey else None,
        needs=needs_of(card.needs),
        greedy=LOSSLESSNESS[card.lossless.greedy],
        sampling=LOSSLESSNESS[card.lossless.sampling],
        results=results,
        table=_results_table(found, links),
        failures=_failures_table(found, links),
        flagged=tuple(result for result in results if result.row.flags),
    )


def needs_of(needs: Needs) -> tuple[str, ...]:
    """What must be at hand, as phrases."""
    phrases = [phrase for name, phrase in NEEDS.items() if getattr(needs, name)]
    return tuple(phrases + [f"the artifact of {slug}" for slug in needs.artifacts])


def paper_address(paper: Paper) -> str | None:
    """Where the paper can be read."""
    return f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else external(paper.url)


def bounds_of(parameter: HyperParameter) -> str:
    """The legal values of a hyper-parameter for people."""
    if parameter.choices is not None:
        return "one of " + ", ".join(parameter.choices)
    if isinstance(parameter.default, bool):
        return "true or false"
    if isinstance(parameter.default, str):
        return "any text"
    low, high = parameter.minimum, parameter.maximum
    if low is None and high is None:
        return "any number"
    if high is None:
        return f"at least {low:g}"
    return f"at most {high:g}" if low is None else f"{low:g} to {high:g}"


def _result(board: Board, row: Row) -> Result:
    anchor = anchor_of(board)
    return Result(board, row, title_of(board), anchor, _categories(row, anchor), _positions(row, anchor))


def _board_cell(board: Board, links: Links) -> Cell:
    return Cell(title_of(board), href=links.board(board), detail=board.environment.accelerator or board.environment.cpu)


def _results_table(found: list[tuple[Board, Row]], links: Links) -> Table | None:
    """One row a board that has figures."""
    rows = tuple(
        table_row(row, (_board_cell(board, links), *(column.cell(row, links) for column in RESULT_COLUMNS)))
        for board, row in found
        if row.status is UnitStatus.OK
    )
    headers = (BOARD, *(column.header for column in RESULT_COLUMNS))
    note = "One row a board. Figures of different boards (machine, target, prompts, settings) do not compare."
    return Table("results", "Results by board", headers, rows, note) if rows else None


def _failures_table(found: list[tuple[Board, Row]], links: Links) -> Table | None:
    rows = tuple(
        table_row(row, (_board_cell(board, links), columns.STATUS.cell(row, links), columns.REASON.cell(row, links)))
        for board, row in found
        if row.status is not UnitStatus.OK
    )
    headers = (BOARD, columns.STATUS.header, columns.REASON.header)
    return Table("failures", "Boards without figures", headers, rows) if rows else None


def _categories(row: Row, anchor: str) -> Table | None:
    headers = (
        Header("category", "Category"),
        Header("prompts", "Prompts", "Prompts of this category in the record.", True, "descending"),
        Header("speedup", "Speedup", "Ratio of sums, with its 95 % interval.", True, "descending"),
        Header("tokens_per_s", "Tokens/s", "Tokens per second of the method.", True, "descending"),
        Header("acceptance_length", "Acceptance length", "Tokens per verification step.", True, "descending"),
    )
    rows = tuple(TableRow(_category_cells(part)) for part in row.by_category)
    return Table(f"{anchor}-categories", "By prompt category", headers, rows) if rows else None


def _category_cells(part: CategoryRow) -> tuple[Cell, ...]:
    reason = "The record has no such figure."
    return (
        Cell(part.category.replace("_", " ")),
        number(part.n_prompts, numbers.count, reason),
        speedup(part.speedup, reason),
        number(part.tokens_per_s, numbers.rate, reason),
        number(part.acceptance_length, "{:.2f}".format, reason),
    )


def _positions(row: Row, anchor: str) -> Table | None:
    headers = (
        Header("position", "Draft position", "1 is the first draft token.", True),
        Header("drafted", "Steps drafted", "Steps whose draft reached this position.", True, "descending"),
        Header("joint", "Accepted ÷ drafted", "How often the position is accepted at all.", True, "descending"),
        Header("conditional", "Accepted ÷ reached", "The same, given that all earlier ones were.", True, "descending"),
    )
    rows = tuple(
        TableRow((
            number(part.position, numbers.count, ""),
            number(part.drafted, numbers.count, ""),
            number(part.joint, numbers.percent, "No draft reached this position."),
            number(part.conditional, numbers.percent, "No step accepted all earlier positions."),
        ))
        for part in row.acceptance_by_position
    )  # fmt: skip
    return Table(f"{anchor}-positions", "Acceptance by draft position", headers, rows) if rows else None


def catalog_table(catalog: Catalog, boards: Boards) -> Table:
    """All methods of the catalog, run or not, with the reason where not."""
    links = Links(catalog, root="../")
    headers = (
        columns.METHOD.header,
        columns.PLACE.header,
        Header("year", "Year", "Of the first paper.", True, "descending"),
        Header("shape", "Draft", "Form of the draft."),
        Header("lossless", "Losslessness", "Claimed at temperature 0; above it."),
        Header("needs", "Needs"),
        Header("status", "Status"),
        Header("boards", "Boards", "Boards on which the method has figures.", True, "descending"),
    )
    rows = tuple(
        TableRow(_catalog_cells(method.card, boards, links), method.card.method_class.value, method.card.status.value)
        for method in catalog.methods.values()
    )
    return Table("methods", "All methods", headers, rows)


def _catalog_cells(card: Card, boards: Boards, links: Links) -> tuple[Cell, ...]:
    measured = sum(
        any(row.method == card.slug and row.status is UnitStatus.OK for row in board.rows) for board in boards.boards
    )
    year = min((paper.year for paper in card.papers), default=None)
    place = Cell(
        columns.CLASS_NAMES[card.method_class.value],
        sort=card.place.atlas,
        detail=links.place_name(card.place.atlas),
        href=links.place(card.place.atlas),
    )
    return (
        Cell(card.name, sort=card.name.casefold(), href=links.method(card.slug)),
        place,
        number(year, "{:.0f}".format, "The card names no paper."),
        Cell(card.draft_shape),
        Cell(card.lossless.greedy.value, detail=f"sampling: {card.lossless.sampling.value}"),
        Cell(", ".join(needs_of(card.needs)) or "nothing"),
        Cell(card.status.value, icon=STATUS_ICONS[card.status], detail=card.reason or ""),
        number(measured, numbers.count, "") if measured else missing("No record with figures yet."),
    )

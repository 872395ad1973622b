"""A board for people: a table for the terminal, and the same as Markdown for notes."""

from rich.table import Table
from rich.text import Text

from specatlas.analysis.schema import Board, Row
from specatlas.records.schema import UnitStatus

COLUMNS = ("rank", "method", "class", "speedup", "AL", "tokens/s", "draft share", "verdict", "flags")
NUMBERS = frozenset({"rank", "speedup", "AL", "tokens/s", "draft share"})
UNKNOWN = "–"


def board_title(board: Board) -> str:
    """What the board is of, in one line."""
    return f"{board.target} on {board.machine}: {board.prompt_set} ({board.n_prompts} prompts), {board.settings}"


def board_table(board: Board) -> Table:
    """The board for a terminal; method names are printed as they are, never as markup."""
    table = Table(title=Text(board_title(board)), title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in NUMBERS else "left", overflow="fold")
    for row in board.rows:
        table.add_row(*(Text(cell) for cell in _cells(row)), style=None if row.ranked else "dim")
    return table


def board_markdown(board: Board) -> str:
    """The board as a Markdown table below a bold title."""
    rule = ["--:" if column in NUMBERS else "---" for column in COLUMNS]
    lines = [list(COLUMNS), rule, *(_cells(row) for row in board.rows)]
    table = "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)
    return f"**{_escaped(board_title(board))}**\n\n{table}\n"


def _cells(row: Row) -> list[str]:
    if row.status is not UnitStatus.OK:
        outcome = f"{row.status.value.replace('_', ' ')}: {row.reason}"
        return [UNKNOWN, row.method, row.method_class, *[UNKNOWN] * 4, outcome, _flags(row)]
    return [
        _rank(row),
        row.method,
        row.method_class,
        _speedup(row),
        UNKNOWN if row.acceptance_length is None else f"{row.acceptance_length:.2f}",
        UNKNOWN if row.tokens_per_s is None else f"{row.tokens_per_s:.1f}",
        UNKNOWN if row.draft_share is None else f"{row.draft_share:.0%}",
        UNKNOWN if row.verdict is None else row.verdict.value,
        _flags(row),
    ]


def _rank(row: Row) -> str:
    if row.rank is None:
        return UNKNOWN
    best, worst = row.rank
    return str(best) if best == worst else f"{best}–{worst}"


def _speedup(row: Row) -> str:
    if row.speedup is None:
        return UNKNOWN
    interval = row.speedup.interval
    bounds = f" [{interval.low:.2f}, {interval.high:.2f}]" if interval else ""
    return f"{row.speedup.ratio_of_sums:.2f}×{bounds}"


def _flags(row: Row) -> str:
    return ", ".join(flag.code for flag in row.flags)


def _escaped(cell: str) -> str:
    """A cell that cannot break the table."""
    return cell.replace("|", "\\|").replace("\n", " ")

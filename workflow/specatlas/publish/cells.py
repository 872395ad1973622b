"""Cells and tables as data: what a cell says, how it sorts, and why it is empty where it is."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from specatlas.analysis.schema import Flag, Speedup
from specatlas.publish import numbers

Direction = Literal["ascending", "descending"]


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: What the cell says.
        sort: Number or text that the cell sorts by; None for the text itself, or for a missing number.
        detail: Second, smaller line, e.g. an interval.
        hint: Tooltip; nothing that a page does not say elsewhere in full.
        missing: Why there is no number; the cell then shows a dash and this reason.
        href: Where the text leads.
        icon: Sign before the text; never the only carrier of a meaning.
        flags: What a reader must know of the row.
        css: Extra class of the cell.
    """

    text: str
    sort: float | str | None = None
    detail: str = ""
    hint: str = ""
    missing: str | None = None
    href: str | None = None
    icon: str = ""
    flags: tuple[Flag, ...] = ()
    css: str = ""


@dataclass(frozen=True)
class Header:
    """The head of a column.

    Attributes:
        key: Name of the column in addresses, e.g. `#sort=speedup`.
        label: Title for people.
        meaning: One sentence on what the column holds.
        numeric: Whether cells are numbers: right-aligned, sorted by value, missing ones last.
        first: Direction of the first click.
    """

    key: str
    label: str
    meaning: str = ""
    numeric: bool = False
    first: Direction = "ascending"


@dataclass(frozen=True)
class TableRow:
    """One row and what the filters know of it."""

    cells: tuple[Cell, ...]
    method_class: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    """A table that the page's script can sort and filter.

    Attributes:
        anchor: Its id; unique on its page.
        caption: What the rows have in common.
        note: What a reader must know before comparing them.
    """

    anchor: str
    caption: str
    headers: tuple[Header, ...]
    rows: tuple[TableRow, ...]
    note: str = ""


def number(value: float | None, show: Callable[[float], str], reason: str, detail: str = "", css: str = "") -> Cell:
    """A number cell; `reason` says why the number is missing where it is."""
    if value is None:
        return missing(reason)
    if not math.isfinite(value):
        return missing("The figure is not a finite number.")
    return Cell(show(value), sort=float(value), detail=detail, css=css)


def speedup(value: Speedup | None, reason: str, css: str = "") -> Cell:
    """A speedup with its 95 % interval."""
    if value is None:
        return missing(reason)
    return number(value.ratio_of_sums, numbers.times, reason, numbers.interval(value.interval), css)


def missing(reason: str) -> Cell:
    """A dash, and why."""
    return Cell("—", missing=reason)

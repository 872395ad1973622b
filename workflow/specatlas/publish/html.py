"""Reads built HTML pages into what the checks ask of them."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

# Attributes by which a page makes the browser load something; `a` only leads somewhere.
LOADS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
    "link": ("href",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}
PASSIVE_LINKS = {"canonical", "alternate", "prev", "next"}
TABLE_CLASS = "atlas-table"


@dataclass
class TableCell:
    """One data cell of a sortable table."""

    attributes: dict[str, str]
    text: str = ""


@dataclass
class HtmlPage:
    """What the checks ask of one page.

    Attributes:
        path: Below the site's folder, with `/`.
        ids: Anchors.
        links: Targets of `a` elements, as written.
        loads: Addresses that the browser fetches for the page.
        cells: Data cells of sortable tables.
        handlers: Event-handler attributes, e.g. `onclick`; the site has none.
    """

    path: str
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    cells: list[TableCell] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, path: str) -> None:
        super().__init__(convert_charrefs=True)
        self.page = HtmlPage(path)
        self._in_table = False
        self._cell: TableCell | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self._note_common(tag, attributes)
        if tag == "table":
            self._in_table = TABLE_CLASS in attributes.get("class", "").split()
        elif tag == "td" and self._in_table:
            self._cell = TableCell(attributes)
            self.page.cells.append(self._cell)

    def _note_common(self, tag: str, attributes: dict[str, str]) -> None:
        if identity := attributes.get("id") or (attributes.get("name") if tag == "a" else None):
            self.page.ids.add(identity)
        if tag in {"a", "area"} and "href" in attributes:
            self.page.links.append(attributes["href"])
        passive = tag == "link" and attributes.get("rel", "") in PASSIVE_LINKS
        if not passive:
            for name in LOADS.get(tag, ()):
                if attributes.get(name):
                    self.page.loads.extend(_addresses(name, attributes[name]))
        self.page.loads.extend(css_addresses(attributes.get("style", "")))
        self.page.handlers.extend(f"{tag} {name}" for name in attributes if name.startswith("on"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._cell = None
        elif tag == "table":
            self._in_table = False

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.text += data


def _addresses(name: str, value: str) -> list[str]:
    """The addresses of an attribute; `srcset` has several, each with a size."""
    if name != "srcset":
        return [value]
    return [part.split()[0] for part in value.split(",") if part.strip()]


def css_addresses(text: str) -> list[str]:
    """What a style sheet makes the browser load."""
    quoted = re.findall(r"url\(\s*['\"]?([^'\")]+)", text)
    return quoted + re.findall(r"@import\s+['\"]([^'\"]+)", text)


def read_page(file: Path, root: Path) -> HtmlPage:
    """Parses one built page."""
    reader = _Reader(file.relative_to(root).as_posix())
    reader.feed(file.read_text(encoding="utf-8"))
    reader.close()
    return reader.page

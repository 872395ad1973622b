"""Checks of a built site, each with a name. The build runs them and fails loudly; so do the tests."""

import math
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from specatlas.publish.html import HtmlPage, TableCell, css_addresses, read_page

# Served for any address at all, hence linked from the server's root; nobody opens it from a folder.
NOT_FOUND_PAGE = "404.html"
WEB_SCHEMES = {"http", "https", "mailto"}
LOOKS_LIKE_NUMBER = re.compile(r"^[+−-]?\d[\d.,]*\s*[×%]?$")
UNFORMATTED = {"none", "nan", "inf", "-inf", "null", "undefined"}


@dataclass(frozen=True)
class Finding:
    """A fault of the built site.

    Attributes:
        check: Name of the check that found it.
        page: Path of the page below the site's folder.
        message: What is wrong.
    """

    check: str
    page: str
    message: str

    def __str__(self) -> str:
        return f"{self.page}: {self.check}: {self.message}"


def check_site(public: Path, slugs: Sequence[str]) -> list[Finding]:
    """Runs every check.

    Args:
        public: Folder of the built site.
        slugs: Methods that must have a page.

    Returns:
        The faults, by page; none if the site is sound.
    """
    files = {path.relative_to(public).as_posix() for path in public.rglob("*") if path.is_file()}
    pages = [read_page(public / path, public) for path in sorted(files) if path.endswith(".html")]
    pages = [page for page in pages if page.path != NOT_FOUND_PAGE]
    findings = [
        *external_resources(pages),
        *external_style_resources(public, files),
        *broken_links(pages, files),
        *unsafe_markup(pages),
        *missing_method_pages(files, slugs),
        *unsortable_numbers(pages),
        *unformatted_values(pages),
    ]
    return sorted(findings, key=lambda finding: (finding.page, finding.check, finding.message))


def external_resources(pages: Iterable[HtmlPage]) -> Iterator[Finding]:
    """Nothing that a page loads comes from elsewhere: the site opens offline and tells nobody who reads it."""
    for page in pages:
        for address in page.loads:
            if _is_external(address):
                yield Finding("external_resource", page.path, f"loads {address}")


def external_style_resources(public: Path, files: Iterable[str]) -> Iterator[Finding]:
    """The same for what style sheets load."""
    for path in sorted(files):
        if path.endswith(".css"):
            for address in css_addresses((public / path).read_text(encoding="utf-8")):
                if _is_external(address):
                    yield Finding("external_resource", path, f"loads {address}")


def broken_links(pages: Sequence[HtmlPage], files: set[str]) -> Iterator[Finding]:
    """Every internal link, resource and anchor leads somewhere, also from a folder on disk."""
    ids = {page.path: page.ids for page in pages}
    for page in pages:
        for address in dict.fromkeys([*page.links, *page.loads]):
            fault = _link_fault(page, address, files, ids)
            if fault:
                yield Finding("broken_link", page.path, fault)


def _link_fault(page: HtmlPage, address: str, files: set[str], ids: dict[str, set[str]]) -> str | None:
    try:
        parts = urlsplit(address)
    except ValueError:
        return f"{address} is not an address"
    if parts.scheme or parts.netloc:
        return None
    if parts.path.startswith("/"):
        return f"{address} starts at the server's root, so it does not open from a folder"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), unquote(parts.path)))
    if not parts.path:
        target = page.path
    elif parts.path.endswith("/") or parts.path == ".":
        target = posixpath.normpath(posixpath.join(target, "index.html"))
    if target not in files:
        return f"{address} leads to no file"
    anchor = unquote(parts.fragment)
    if anchor and target in ids and anchor not in ids[target]:
        return f"{address} leads to no anchor of {target}"
    return None


def unsafe_markup(pages: Iterable[HtmlPage]) -> Iterator[Finding]:
    """No link runs a script and no element has an event handler: text of a card must stay text."""
    for page in pages:
        for address in page.links:
            scheme = urlsplit(address.strip()).scheme.lower() if ":" in address else ""
            if scheme and scheme not in WEB_SCHEMES:
                yield Finding("unsafe_markup", page.path, f"a link opens {address}")
        for handler in page.handlers:
            yield Finding("unsafe_markup", page.path, f"event handler in {handler}")


def missing_method_pages(files: set[str], slugs: Iterable[str]) -> Iterator[Finding]:
    """Every method has its page."""
    for slug in slugs:
        path = f"methods/{slug}.html"
        if path not in files:
            yield Finding("missing_method_page", path, f"the method {slug} has no page")


def unsortable_numbers(pages: Iterable[HtmlPage]) -> Iterator[Finding]:
    """A number cell sorts by value, or says why it is empty."""
    for page in pages:
        for cell in page.cells:
            is_number = "number" in cell.attributes.get("class", "").split()
            if is_number and not _has_reason(cell) and not _is_finite(cell.attributes.get("data-sort")):
                yield Finding(
                    "unsortable_number", page.path, f"the cell `{cell.text.strip()}` has no numeric data-sort"
                )
            elif not is_number and LOOKS_LIKE_NUMBER.match(cell.text.strip()) and "data-sort" not in cell.attributes:
                yield Finding(
                    "unsortable_number", page.path, f"the cell `{cell.text.strip()}` is not marked as a number"
                )


def unformatted_values(pages: Iterable[HtmlPage]) -> Iterator[Finding]:
    """No cell shows a programming language's word for nothing, and no empty one lacks its reason."""
    for page in pages:
        for cell in page.cells:
            text = cell.text.strip()
            if _has_reason(cell):
                continue
            if text == "—":
                yield Finding("unformatted_value", page.path, "an empty cell gives no reason")
            elif "number" in cell.attributes.get("class", "").split() and text.lower() in UNFORMATTED:
                yield Finding("unformatted_value", page.path, f"a cell shows `{text}`")


def _has_reason(cell: TableCell) -> bool:
    return bool(cell.attributes.get("data-missing"))


def _is_finite(value: str | None) -> bool:
    try:
        return value is not None and math.isfinite(float(value))
    except ValueError:
        return False


def _is_external(address: str) -> bool:
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return True
    return bool(parts.netloc) or parts.scheme in {"http", "https", "ftp"}

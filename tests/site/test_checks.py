"""The checks find the faults that they are for."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from specatlas.publish import check_site
from specatlas.publish.html import css_addresses

Plant = Callable[[str], list[str]]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Checks a page with the given body; returns the names of the checks that found something."""

    def planted(body: str) -> list[str]:
        (tmp_path / "sub").mkdir(exist_ok=True)
        (tmp_path / "other.html").write_text('<p id="there">x</p>')
        (tmp_path / "sub" / "page.html").write_text(f"<html><body>{body}</body></html>")
        return [finding.check for finding in check_site(tmp_path, [])]

    return planted


@pytest.mark.parametrize(
    "body",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example.org/x.css">',
        '<link rel="preconnect" href="https://fonts.gstatic.com">',
        '<img src="http://example.org/x.png">',
        '<img srcset="https://example.org/x.png 2x">',
        '<p style="background: url(https://example.org/x.png)">x</p>',
    ],
)
def test_external_resources(plant: Plant, body: str) -> None:
    assert plant(body) == ["external_resource"]


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ('<a href="nowhere.html">x</a>', ["broken_link"]),
        ('<a href="../other.html#nowhere">x</a>', ["broken_link"]),
        ('<a href="#nowhere">x</a>', ["broken_link"]),
        ('<a href="/other.html">x</a>', ["broken_link"]),
        ('<img src="missing.png">', ["broken_link"]),
        ('<a href="../other.html#there">x</a> <a href="page.html">x</a> <a href="https://a.org/b">x</a>', []),
        ('<a href="javascript:alert(1)">x</a>', ["unsafe_markup"]),
        ('<p onclick="x()">x</p>', ["unsafe_markup"]),
    ],
)
def test_links_and_markup(plant: Plant, body: str, faults: list[str]) -> None:
    assert plant(body) == faults


@pytest.mark.parametrize(
    ("cell", "faults"),
    [
        ('<td class="number" data-sort="1.5">1.50×</td>', []),
        ('<td class="number" data-missing="true" title="why">—</td>', []),
        ('<td class="number">1.50×</td>', ["unsortable_number"]),
        ('<td class="number" data-sort="nan">nan</td>', ["unformatted_value", "unsortable_number"]),
        ('<td class="text">1.50×</td>', ["unsortable_number"]),
        ('<td class="number" data-sort="0">None</td>', ["unformatted_value"]),
        ('<td class="text">—</td>', ["unformatted_value"]),
        ('<td class="text">two of 3</td>', []),
    ],
)
def test_cells(plant: Plant, cell: str, faults: list[str]) -> None:
    assert plant(f'<table class="atlas-table"><tbody><tr>{cell}</tr></tbody></table>') == faults


def test_other_tables_are_left_alone(plant: Plant) -> None:
    assert plant("<table><tr><td>1.5</td></tr></table>") == []


def test_missing_method_page_and_style_sheet(public: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(public, copy)
    (copy / "methods" / "lookup.html").unlink()
    (copy / "assets" / "atlas.css").write_text("@import 'https://example.org/x.css';")
    found = {(finding.check, finding.page) for finding in check_site(copy, ["lookup"])}
    assert ("missing_method_page", "methods/lookup.html") in found
    assert ("external_resource", "assets/atlas.css") in found
    assert ("broken_link", "index.html") in found


def test_css_addresses() -> None:
    text = "a{b:url('x.png')} @import \"y.css\"; c{d:url(data:image/png;base64,AA)}"
    assert css_addresses(text) == ["x.png", "data:image/png;base64,AA", "y.css"]

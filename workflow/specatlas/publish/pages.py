"""What the site consists of: Markdown pages and JSON files by path, a pure function of boards, cards and templates."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from specatlas.analysis.schema import Boards, Row
from specatlas.catalog.card import Card
from specatlas.catalog.discovery import Catalog
from specatlas.publish.boards import board_section
from specatlas.publish.columns import CLASS_NAMES, STATUSES, VERDICTS
from specatlas.publish.links import Links
from specatlas.publish.methods import catalog_table, method_page
from specatlas.publish.render import Renderer
from specatlas.publish.tree import places
from specatlas.records.schema import UnitStatus

TRY_PROMPT = "Why is the sky blue?"


def render_pages(boards: Boards, catalog: Catalog, templates: Path) -> dict[str, str]:
    """All generated Markdown pages by their path below the docs folder."""
    render, links = Renderer(templates), Links(catalog)
    rows = [row for board in boards.boards for row in board.rows]
    sections = [board_section(board, catalog) for board in boards.boards]
    pages = {
        "index.md": render(
            "index.md.j2", sections=sections, links=links, classes=_classes(rows), verdicts=_verdicts(rows)
        ),
        "taxonomy.md": render("taxonomy.md.j2", places=places(catalog), links=links),
        "methods/index.md": render(
            "methods.md.j2",
            table=catalog_table(catalog, boards),
            classes=_classes(method.card for method in catalog.methods.values()),
        ),
        "data.md": render("data.md.j2", sections=sections, files=_data_files(catalog)),
    }
    for method in catalog.methods.values():
        page = method_page(method.card, boards, catalog)
        pages[f"methods/{method.card.slug}.md"] = render(
            "method.md.j2", page=page, links=Links(catalog, root="../"), prompt=TRY_PROMPT
        )
    return pages


def render_data(boards: Boards, catalog: Catalog) -> dict[str, str]:
    """All downloads by their path below the docs folder."""
    data = {
        "data/board.json": boards.model_dump(mode="json", by_alias=True),
        "data/board.schema.json": Boards.model_json_schema(),
        "data/taxonomy.json": catalog.taxonomy.model_dump(mode="json", by_alias=True),
    }
    for slug, method in catalog.methods.items():
        card = method.card.model_dump(mode="json", by_alias=True)
        data[f"data/methods/{slug}.json"] = {"card": card, "results": _results(boards, slug)}
    return {path: _json(value) for path, value in data.items()}


def _classes(found: Iterable[Row | Card]) -> list[tuple[str, str]]:
    """The classes that occur, as (value, name), for the filter."""
    occurring = {str(one.method_class) for one in found}
    return [(value, name) for value, name in CLASS_NAMES.items() if value in occurring]


def _verdicts(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """The verdicts and statuses that occur, as (value, name), for the filter."""
    names = {verdict.value: name for verdict, (_, name) in VERDICTS.items()}
    names |= {status.value: name for status, (_, name) in STATUSES.items() if status is not UnitStatus.OK}
    found = {(row.verdict or row.status).value for row in rows}
    return [(value, name) for value, name in names.items() if value in found]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _results(boards: Boards, slug: str) -> list[dict[str, Any]]:
    """The method's rows, each with the board that it stands on."""
    return [
        {
            "board": board.model_dump(mode="json", by_alias=True, exclude={"rows"}),
            "row": row.model_dump(mode="json", by_alias=True),
        }
        for board in boards.boards
        for row in board.rows
        if row.method == slug
    ]


def _data_files(catalog: Catalog) -> list[tuple[str, str]]:
    """The downloads that the data page lists: address and what is inside."""
    files = [
        ("data/board.json", "Every board and row that the pages show."),
        ("data/board.schema.json", "JSON Schema of the file above, with the meaning of its fields."),
        ("data/taxonomy.json", "The taxonomy as a tree."),
    ]
    return files + [
        (f"data/methods/{slug}.json", f"Card and results of {method.card.name}.")
        for slug, method in catalog.methods.items()
    ]

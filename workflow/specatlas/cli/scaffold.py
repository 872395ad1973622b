"""Copies `methods/_template` to a new method's folder and puts the new names in."""

import re
import shutil
import tempfile
from pathlib import Path

from specatlas.catalog.card import SLUG, MethodClass
from specatlas.catalog.discovery import load_catalog
from specatlas.catalog.taxonomy import read_taxonomy
from specatlas.errors import CatalogError
from specatlas.project import Project

TEXT_SUFFIXES = {".py", ".yaml", ".md", ".txt"}


def create_method(
    project: Project, slug: str, method_class: MethodClass, *, name: str | None, place: str | None
) -> Path:
    """Creates `methods/<class>/<slug>/` whole or not at all, and returns it.

    The template's own slug and name are replaced wherever they occur, its class and place in the card alone.

    Raises:
        CatalogError: Bad or taken slug, unknown place, broken template.
    """
    folder = project.methods / method_class.value / slug
    place = _check_request(project, slug, method_class, place)
    template = project.methods / "_template"
    card = template / "method.yaml"
    if not card.is_file():
        raise CatalogError(f"{card} is missing; restore methods/_template from the repository.")
    text = card.read_text(encoding="utf-8")
    names = {
        _card_value(text, "slug", card): slug,
        _card_value(text, "name", card): name or slug.replace("_", " ").capitalize(),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=project.methods) as scratch:
        made = Path(scratch) / slug
        shutil.copytree(template, made, ignore=shutil.ignore_patterns("__pycache__"))
        for path in made.rglob("*"):
            if path.suffix in TEXT_SUFFIXES:
                path.write_text(_renamed(path.read_text(encoding="utf-8"), names), encoding="utf-8")
        _place_card(made / "method.yaml", method_class, place)
        made.rename(folder)
    try:
        load_catalog(project.methods)
    except CatalogError:
        shutil.rmtree(folder)
        raise
    return folder


def _check_request(project: Project, slug: str, method_class: MethodClass, place: str | None) -> str:
    if not SLUG.fullmatch(slug):
        raise CatalogError(f"`{slug}` is no slug: use lower-case letters, digits and underscores, a letter first.")
    if slug in load_catalog(project.methods).methods:
        raise CatalogError(f"A method `{slug}` exists already; choose another slug.")
    places = list(read_taxonomy(project.methods / "taxonomy.yaml").places())
    own = [path for path in places if path.split("/")[0] == method_class.value]
    if place is not None and place not in places:
        raise CatalogError(f"The taxonomy has no place `{place}`; its places: {', '.join(own)}.")
    return place or own[0]


def _card_value(text: str, key: str, card: Path) -> str:
    match = re.search(rf"^{key}:\s*(.+?)\s*$", text, flags=re.MULTILINE)
    if match is None:
        raise CatalogError(f"{card} has no `{key}`; restore methods/_template from the repository.")
    return match[1].strip("\"'")


def _renamed(text: str, names: dict[str, str]) -> str:
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(old)}(?!\w)" for old in sorted(names, key=len, reverse=True)))
    return pattern.sub(lambda match: names[match[0]], text)


def _place_card(card: Path, method_class: MethodClass, place: str) -> None:
    text = card.read_text(encoding="utf-8")
    text = re.sub(r"^class:.*$", f"class: {method_class.value}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"(\batlas:\s*)[\w/]+", rf"\g<1>{place}", text, count=1)
    card.write_text(re.sub(r"(\bsurvey:\s*)[\w/]+", r"\g<1>null", text, count=1), encoding="utf-8")

"""The taxonomy as data: one YAML tree validates cards and draws the site's pages."""

from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from specatlas.catalog.card import CardModel, Slug
from specatlas.errors import CatalogError


class Node(CardModel):
    """One place in the tree.

    Attributes:
        key: Last part of the place's path.
        name: Title for people.
        summary: What the methods here have in common.
        survey: The section of the survey (arXiv 2411.13157) that defines the place; null for a place of ours.
    """

    key: Slug
    name: str
    summary: str
    survey: str | None = None
    children: tuple["Node", ...] = Field(default=())

    def walk(self, prefix: str = "") -> Iterator[tuple[str, "Node"]]:
        """Yields (path, node) for this node and everything below it, depth first."""
        path = f"{prefix}/{self.key}" if prefix else self.key
        yield path, self
        for child in self.children:
            yield from child.walk(path)


class Taxonomy(CardModel):
    """The whole tree. File: `methods/taxonomy.yaml`."""

    classes: tuple[Node, ...]

    def places(self) -> dict[str, Node]:
        """All places by path, in the file's order."""
        return {path: node for root in self.classes for path, node in root.walk()}


def read_taxonomy(path: Path) -> Taxonomy:
    """Reads `taxonomy.yaml`.

    Raises:
        CatalogError: The file is not YAML, breaks the schema or names a place twice.
    """
    try:
        taxonomy = Taxonomy.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise CatalogError(f"{path}: not valid YAML ({str(error).splitlines()[0]}); fix the syntax.") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CatalogError(f"{path}: {key}: {first['msg']}; fix this entry of the taxonomy.") from error
    paths = [place for root in taxonomy.classes for place, _ in root.walk()]
    if len(paths) != len(set(paths)):
        twice = next(place for place in paths if paths.count(place) > 1)
        raise CatalogError(f"{path}: the place {twice} appears twice; rename one of them.")
    return taxonomy

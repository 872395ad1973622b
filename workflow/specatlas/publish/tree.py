"""The taxonomy page as data: every place, and the methods that the survey and we put there."""

from dataclasses import dataclass

from specatlas.catalog.card import Card
from specatlas.catalog.discovery import Catalog
from specatlas.catalog.taxonomy import Node
from specatlas.publish.links import place_anchor


@dataclass(frozen=True)
class Place:
    """One place of the taxonomy.

    Attributes:
        methods: Cards that we place here.
        survey_methods: Cards that the survey places here and we place elsewhere.
        empty: Whether no method stands here or below.
    """

    path: str
    anchor: str
    node: Node
    methods: tuple[Card, ...]
    survey_methods: tuple[Card, ...]
    children: tuple["Place", ...]
    empty: bool


def places(catalog: Catalog) -> tuple[Place, ...]:
    """The whole tree with its methods."""
    cards = [method.card for method in catalog.methods.values()]
    return tuple(_place(root, root.key, cards) for root in catalog.taxonomy.classes)


def _place(node: Node, path: str, cards: list[Card]) -> Place:
    here = tuple(card for card in cards if card.place.atlas == path)
    surveyed = tuple(card for card in cards if card.place.survey == path and card.place.atlas != path)
    children = tuple(_place(child, f"{path}/{child.key}", cards) for child in node.children)
    empty = not here and not surveyed and all(child.empty for child in children)
    return Place(path, place_anchor(path), node, here, surveyed, children, empty)

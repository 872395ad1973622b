"""How pages refer to each other: anchors, addresses and the names of places."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from specatlas.analysis.schema import Board
from specatlas.catalog.discovery import Catalog


def anchor_of(board: Board) -> str:
    """The stable anchor of a board on the leaderboard."""
    return slugify("-".join((board.machine, board.target, board.prompt_set, board.settings)))


def title_of(board: Board) -> str:
    """The board's title for people."""
    return f"{board.target} on {board.machine}: {board.prompt_set}, {board.settings}"


def slugify(text: str) -> str:
    """Letters, digits and hyphens only, so that the result can stand in an address."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def external(address: str | None) -> str | None:
    """`address` if it leads to a web page; anything else (`javascript:` above all) must not become a link."""
    if address is None:
        return None
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return None
    return address.strip() if parts.scheme in {"http", "https"} and parts.netloc else None


@dataclass(frozen=True)
class Links:
    """Addresses as seen from one page.

    Attributes:
        catalog: The methods that have a page.
        root: Path from the page's folder to the site's root: empty, or `../`.
    """

    catalog: Catalog
    root: str = ""

    def method(self, slug: str) -> str | None:
        """Address of the method's page; None if the catalog has no such method (its records may outlive its card)."""
        return f"{self.root}methods/{slug}.html" if slug in self.catalog.methods else None

    def board(self, board: Board) -> str:
        """Address of the board's section on the leaderboard."""
        return f"{self.root}index.html#{anchor_of(board)}"

    def place(self, path: str) -> str:
        """Address of a place on the taxonomy page."""
        return f"{self.root}taxonomy.html#{place_anchor(path)}"

    def place_name(self, path: str) -> str:
        """Name of a place for people; the path itself if the taxonomy does not know it."""
        node = self.catalog.taxonomy.places().get(path)
        return node.name if node else path

    def place_trail(self, path: str) -> str:
        """Names from the class down to the place, e.g. `Model-centric › Dependent draft models`."""
        parts = path.split("/")
        return " › ".join(self.place_name("/".join(parts[: depth + 1])) for depth in range(len(parts)))


def place_anchor(path: str) -> str:
    """The anchor of a place on the taxonomy page."""
    return "place-" + slugify(path)

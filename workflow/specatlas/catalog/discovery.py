"""Finds the methods: every folder `methods/<class>/<slug>/` with a `method.yaml` is one; nothing is registered."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from specatlas.catalog.card import Card, MethodClass, Status, read_card
from specatlas.catalog.taxonomy import Taxonomy, read_taxonomy
from specatlas.errors import CatalogError, UnknownMethod
from specatlas.files import sha256_of_files


@dataclass(frozen=True)
class Method:
    """A method's card and folder."""

    card: Card
    folder: Path

    @property
    def sources(self) -> list[Path]:
        """The method's own files, sorted: what its records depend on."""
        return sorted(path for path in self.folder.rglob("*") if path.suffix in {".py", ".yaml"})

    @property
    def source_sha256(self) -> str:
        """Hash of the method's own files."""
        return sha256_of_files(self.sources, self.folder)


@dataclass(frozen=True)
class Catalog:
    """All methods by slug, in taxonomy order, and the taxonomy."""

    methods: dict[str, Method]
    taxonomy: Taxonomy

    def __getitem__(self, slug: str) -> Method:
        """The method with this slug.

        Raises:
            UnknownMethod: There is none; names the closest slugs.
        """
        if slug in self.methods:
            return self.methods[slug]
        close = get_close_matches(slug, self.methods, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`specatlas list` shows all."
        raise UnknownMethod(f"No method is called `{slug}`; {hint}")

    def runnable(self) -> list[Method]:
        """The methods that run here, in catalog order."""
        return [method for method in self.methods.values() if method.card.status is Status.RUNNABLE]


def load_catalog(methods_folder: Path) -> Catalog:
    """Reads the taxonomy and every card below `methods_folder`.

    Raises:
        CatalogError: A card or the taxonomy is broken, a slug differs from its folder's name or is used twice, a place
            is not in the taxonomy, a needed artifact has no producer.
    """
    taxonomy = read_taxonomy(methods_folder / "taxonomy.yaml")
    places = list(taxonomy.places())
    found: list[Method] = []
    for method_class in MethodClass:
        for path in sorted((methods_folder / method_class.value).glob("*/method.yaml")):
            card = read_card(path)
            _check_place(card, path, method_class, places)
            found.append(Method(card, path.parent))
    slugs = [method.card.slug for method in found]
    for method in found:
        if slugs.count(method.card.slug) > 1:
            raise CatalogError(f"{method.folder}: the slug {method.card.slug} is used twice; rename one folder.")
        for artifact in method.card.needs.artifacts:
            if artifact not in slugs:
                raise CatalogError(f"{method.folder}/method.yaml: needs.artifacts: no method `{artifact}` makes it.")
    found.sort(key=lambda method: (places.index(method.card.place.atlas), method.card.slug))
    return Catalog({method.card.slug: method for method in found}, taxonomy)


def _check_place(card: Card, path: Path, method_class: MethodClass, places: list[str]) -> None:
    if card.slug != path.parent.name:
        raise CatalogError(f"{path}: slug `{card.slug}` differs from its folder `{path.parent.name}`; make them equal.")
    if card.method_class is not method_class:
        raise CatalogError(f"{path}: class `{card.method_class}` differs from its folder `{method_class}`; move it.")
    for key, place in (("place.survey", card.place.survey), ("place.atlas", card.place.atlas)):
        if place is not None and place not in places:
            raise CatalogError(f"{path}: {key}: `{place}` is not in taxonomy.yaml; known: {', '.join(places)}.")

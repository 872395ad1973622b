"""`list`, `show`, `new`: what the catalog holds, and how a method is added. No torch."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from specatlas.catalog.card import Card, MethodClass
from specatlas.catalog.discovery import load_catalog
from specatlas.cli.common import JsonOption, load_project, print_json, print_table, relative, say
from specatlas.cli.scaffold import create_method
from specatlas.project import find_project


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    app.command("list")(list_methods)
    app.command("show")(show)
    app.command("new")(new)


def list_methods(as_json: JsonOption = False) -> None:
    """List every method: what it is, whether it runs here, what it preserves."""
    _, catalog = load_project()
    cards = [method.card for method in catalog.methods.values()]
    if as_json:
        print_json([summary(card) for card in cards])
        return
    rows = [
        (
            card.slug,
            card.name,
            card.place.atlas,
            card.status.value,
            f"{card.lossless.greedy} / {card.lossless.sampling}",
            "yes" if card.training else "no",
            _years(card),
        )
        for card in cards
    ]
    columns = ("slug", "name", "place", "status", "lossless (greedy / sampling)", "trained", "year")
    print_table(f"{len(cards)} methods", columns, rows)


def summary(card: Card) -> dict[str, Any]:
    """A method in `list --json`."""
    return {
        "slug": card.slug,
        "name": card.name,
        "class": card.method_class.value,
        "category": card.place.atlas,
        "status": card.status.value,
        "reason": card.reason,
        "lossless": {"greedy": card.lossless.greedy.value, "sampling": card.lossless.sampling.value},
        "trained": card.training is not None,
        "papers": [paper.model_dump(mode="json") for paper in card.papers],
    }


def show(slug: str, as_json: JsonOption = False) -> None:
    """Show a method's whole card."""
    project, catalog = load_project()
    method = catalog[slug]
    if as_json:
        data = method.card.model_dump(mode="json", by_alias=True)
        print_json(data | {"folder": relative(method.folder, project)})
        return
    console = Console(highlight=False)
    console.print(Text(f"{method.card.name}  ({method.card.slug})", style="bold"))
    console.print(Text(method.card.summary.strip()))
    print_table("", ("", ""), [(key, value) for key, value in _facts(method.card, relative(method.folder, project))])
    if method.card.hyperparameters:
        rows = [
            (
                name,
                parameter.default,
                _range(parameter.minimum, parameter.maximum),
                parameter.unit,
                parameter.description,
            )
            for name, parameter in method.card.hyperparameters.items()
        ]
        print_table("Hyper-parameters", ("name", "default", "range", "unit", "what it does"), rows)
    for paper in method.card.papers:
        link = f"arXiv:{paper.arxiv}" if paper.arxiv else (paper.url or "")
        console.print(Text(f"{paper.title} ({', '.join(map(str, filter(None, (paper.venue, paper.year))))}) {link}"))


def _facts(card: Card, folder: str) -> list[tuple[str, str]]:
    rule = card.verification
    needs = [name.replace("_", " ") for name, value in card.needs.model_dump().items() if value is True]
    facts = {
        "status": card.status.value + (f": {card.reason}" if card.reason else ""),
        "place": card.place.atlas,
        "draft": card.draft_shape,
        "lossless": f"greedy {card.lossless.greedy}, sampling {card.lossless.sampling}",
        "verification": f"greedy {rule.greedy}, sampling {rule.sampling or 'none'}" if rule else "none",
        "training": f"{card.training.kind}: {card.training.summary.strip()}" if card.training else "none",
        "needs": ", ".join([*needs, *(f"artifact of {slug}" for slug in card.needs.artifacts)]) or "nothing",
        "differs from the paper": "; ".join(card.differs_from_paper) or "not that we know",
        "official code": card.official_code or "none",
        "folder": folder,
    }
    return list(facts.items())


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None and high is None else f"{'-∞' if low is None else low} … {'∞' if high is None else high}"


def _years(card: Card) -> str:
    return str(min(paper.year for paper in card.papers)) if card.papers else ""


def new(
    slug: str,
    method_class: Annotated[
        MethodClass, typer.Option("--class", help="Which folder of methods/ it goes to.")
    ] = MethodClass.DRAFT_CENTRIC,
    name: Annotated[str | None, typer.Option(help="Name for people. [default: made from the slug]")] = None,
    place: Annotated[str | None, typer.Option(help="Place in taxonomy.yaml, e.g. draft_centric/reuse/prompt.")] = None,
) -> None:
    """Start a new method from methods/_template; nothing else has to change."""
    project = find_project()
    folder = create_method(project, slug, method_class, name=name, place=place)
    load_catalog(project.methods)
    say(f"Made {relative(folder, project)}. Next: fill in method.yaml, then `specatlas check {slug}`.")

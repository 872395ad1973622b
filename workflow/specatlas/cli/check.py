"""`check`: the conformance suite for methods."""

from typing import Annotated

import typer

from specatlas.cli.common import FAILED_CHECK, JsonOption, load_project, print_json, print_table, runnable
from specatlas.errors import CatalogError


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    app.command("check")(check)


def check(
    slugs: Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...")] = None,
    check_all: Annotated[bool, typer.Option("--all", help="Every runnable method.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that methods keep the contract, on tiny random models; exit code 1 when one does not."""
    project, catalog = load_project()
    if bool(slugs) == check_all:
        raise CatalogError("Name the methods to check, or give --all.")
    chosen = [method.card.slug for method in catalog.runnable()] if check_all else list(slugs or [])
    for slug in chosen:
        runnable(catalog, slug)
    from specatlas.measure.conformance import run_checks

    results = run_checks(project, chosen)
    if as_json:
        print_json(results)
    else:
        rows = [
            (slug, name, "passed" if outcome["passed"] else "FAILED", outcome["detail"] or "")
            for slug, result in results.items()
            for name, outcome in result["checks"].items()
        ]
        print_table(f"{len(chosen)} methods", ("method", "check", "outcome", "detail"), rows)
    if not all(result["passed"] for result in results.values()):
        raise typer.Exit(FAILED_CHECK)

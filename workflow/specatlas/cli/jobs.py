"""What the DAG's rules call: one command a rule, all of them usable by hand."""

import traceback
from pathlib import Path
from typing import Annotated

import typer

from specatlas.cli.artifact_failure import record_failure
from specatlas.cli.common import FAILED_CHECK, ConfigOption, load_config, load_project, relative, runnable, say
from specatlas.cli.schemas import SCHEMA_FOLDER, current_schemas, outdated, write_schemas
from specatlas.cli.unlock import unlock
from specatlas.errors import CatalogError, ConfigError, ModelSourceError, SpecAtlasError
from specatlas.progress import task
from specatlas.project import find_project

PANEL = "Steps of the leaderboard (Snakemake calls these)"


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    for command in (fetch, corpus, train, measure, site):
        app.command(rich_help_panel=PANEL)(command)
    app.command(hidden=True)(schemas)
    app.command(hidden=True)(unlock)


def fetch(
    model: Annotated[str, typer.Argument(help="Model id in data/models.yaml.")],
) -> None:
    """Fetch, verify and convert a model."""
    project = find_project()
    from specatlas.models.fetch import FETCH_STEPS, fetch_model

    with task(f"Fetching {model}", FETCH_STEPS) as progress:
        folder = fetch_model(project, model, progress)
    say(f"{model} is at {relative(folder, project)}.")


def corpus(config: ConfigOption = None) -> None:
    """Let the target write the training corpus."""
    project = find_project()
    chosen = load_config(project, config)
    from specatlas.training.corpus import build_corpus

    say(f"Corpus: {relative(Path(build_corpus(project, chosen)), project)}.")


def train(slug: str, config: ConfigOption = None) -> None:
    """Train or search a method's artifact.

    A method that fails here leaves an artifact that says so: its record will carry the reason, and the other methods
    still get their board. Failures of the machine end the job.
    """
    project, catalog = load_project()
    card = runnable(catalog, slug).card
    if card.training is None:
        raise CatalogError(f"Method {slug} trains nothing; its card has no `training`.")
    chosen = load_config(project, config)
    from specatlas.measure.failures import status_of
    from specatlas.training.artifacts import make_artifact

    try:
        folder = Path(make_artifact(project, chosen, slug))
    except (OSError, ConfigError, ModelSourceError):
        raise
    except Exception as error:
        if not isinstance(error, SpecAtlasError):
            traceback.print_exc()
        folder = project.artifact(chosen.target, chosen.budget.name, slug)
        record_failure(folder, error, status_of(error))
        say(f"Training of {slug} failed ({error}); its record will say so.")
    say(f"Artifact: {relative(folder, project)}.")


def measure(
    slug: str,
    settings: Annotated[str | None, typer.Option(help="Name of the settings. [default: the first]")] = None,
    config: ConfigOption = None,
) -> None:
    """Measure one unit and write its record; a method's failure is a record, not an error."""
    project, catalog = load_project()
    runnable(catalog, slug)
    chosen = load_config(project, config)
    name = settings or next(iter(chosen.settings))
    if name not in chosen.settings:
        raise ConfigError(f"No settings are called `{name}`; the configuration has {', '.join(chosen.settings)}.")
    from specatlas.measure.unit import measure_unit

    say(f"Record: {relative(Path(measure_unit(project, chosen, name, slug)), project)}.")


def site(
    output: Annotated[Path | None, typer.Option(help="Folder of the site. [default: site/public]")] = None,
) -> None:
    """Build the site from results/board.json and the cards."""
    project, catalog = load_project()
    from specatlas.analysis.board import read_boards
    from specatlas.publish import build_site

    folder = build_site(project, read_boards(project.results / "board.json"), catalog, output)
    say(f"Site: {relative(folder, project)}/index.html")


def schemas(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 when a file is out of date.")
    ] = False,
) -> None:
    """Write workflow/schemas from the pydantic models."""
    folder = find_project().root / SCHEMA_FOLDER
    stale = outdated(folder, current_schemas())
    if check:
        for name in stale:
            say(f"{SCHEMA_FOLDER}/{name} is out of date; run `specatlas schemas`.")
        raise typer.Exit(FAILED_CHECK if stale else 0)
    write_schemas(folder, current_schemas())
    say(f"{len(stale)} schemas changed in {SCHEMA_FOLDER}.")

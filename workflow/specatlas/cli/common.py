"""What several commands share: options, the project, configurations, output."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specatlas.catalog.card import Status
from specatlas.catalog.discovery import Catalog, Method, load_catalog
from specatlas.config import Config, config_from_argument
from specatlas.errors import CatalogError, ConfigError
from specatlas.project import Project, find_project

DEBUG_VARIABLE = "SPECATLAS_DEBUG"
DEFAULT_CONFIG = "workflow/config/default.yaml"
FAILED_CHECK = 1

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]
ConfigOption = Annotated[
    str | None,
    typer.Option("--config", help=f"Configuration file, or the JSON that the DAG passes. [default: {DEFAULT_CONFIG}]"),
]
TargetOption = Annotated[
    str | None, typer.Option("--target", help="Model id in data/models.yaml. [default: the default configuration's]")
]


def load_config(project: Project, argument: str | None) -> Config:
    """The configuration that a command was given, or the default one."""
    return config_from_argument(argument or str(project.root / DEFAULT_CONFIG))


def load_project() -> tuple[Project, Catalog]:
    """The checkout and its methods."""
    project = find_project()
    return project, load_catalog(project.methods)


def runnable(catalog: Catalog, slug: str) -> Method:
    """The method with this slug, if it runs here.

    Raises:
        UnknownMethod: There is none.
        CatalogError: It is only modelled or catalogued; says why.
    """
    method = catalog[slug]
    if method.card.status is not Status.RUNNABLE:
        raise CatalogError(f"Method {slug} is {method.card.status} and does not run: {method.card.reason}")
    return method


def parse_hyperparameters(pairs: Sequence[str]) -> dict[str, int | float | bool | str]:
    """Reads `name=value` pairs; values are YAML scalars.

    Raises:
        ConfigError: A pair has no `=`, or its value is not a scalar.
    """
    values: dict[str, int | float | bool | str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = None
        if not equals or not isinstance(value, int | float | bool | str):
            raise ConfigError(f"--set takes name=value, for example --set draft_length=4; `{pair}` is none.")
        values[name] = value
    return values


def print_json(value: Any) -> None:
    """Prints JSON, and nothing else, on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table; cells are shown as they are, never read as markup."""
    table = Table(title=Text(title), title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    Console().print(table)


def say(text: str) -> None:
    """Prints one line for a person on standard error, so that standard output stays clean."""
    Console(stderr=True, markup=False, highlight=False, soft_wrap=True).print(text)


def relative(path: Path, project: Project) -> str:
    """A path for people: relative to the checkout where it lies inside."""
    return str(path.relative_to(project.root)) if path.is_relative_to(project.root) else str(path)

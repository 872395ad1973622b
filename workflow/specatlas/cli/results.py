"""`board`, `status`, `publish`: what was measured, what is missing and why, and what becomes public."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from specatlas.archive import all_records, publish_records
from specatlas.catalog.discovery import Catalog
from specatlas.cli.common import (
    ConfigOption,
    JsonOption,
    load_config,
    load_project,
    print_json,
    print_table,
    relative,
    say,
)
from specatlas.cli.status import JobState, job_states
from specatlas.plan import Plan
from specatlas.project import Project, find_project


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    app.command("board")(board)
    app.command("status")(status)
    app.command("publish")(publish)


def board(
    show: Annotated[bool, typer.Option("--show", help="Print results/board.json as it is; build nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Rank every record, local and published, into results/board.json, and print the boards."""
    project, catalog = load_project()
    from specatlas.analysis.board import read_boards
    from specatlas.analysis.tables import board_table

    path = project.results / "board.json"
    if not show:
        _build_board(project, catalog, path)
    boards = read_boards(path)
    if as_json:
        print_json(json.loads(boards.model_dump_json()))
        return
    console = Console()
    for one in boards.boards:
        console.print(board_table(one))
    if not boards.boards:
        say("There are no records yet; `make leaderboard` measures them.")


def _build_board(project: Project, catalog: Catalog, path: Path) -> None:
    from specatlas.analysis.board import build_boards, write_boards
    from specatlas.analysis.evidence import current_hashes
    from specatlas.measure.hashes import harness_sha256

    write_boards(path, build_boards(all_records(project), catalog, current_hashes(catalog, harness_sha256())))


def status(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show what a run has, what failed or was refused, and what is missing, with the end of its log."""
    project = find_project()
    chosen = load_config(project, config)
    from specatlas.measure.environment import machine_name

    states = job_states(Plan(project, chosen, machine_name(chosen)))
    if as_json:
        print_json([asdict(state) for state in states])
        return
    rows = [(state.kind, state.name, state.state, _explanation(state)) for state in states]
    print_table(f"{chosen.name} on {machine_name(chosen)}", ("job", "of", "state", "why"), rows)
    counts = Counter(state.state for state in states)
    say(", ".join(f"{count} {state}" for state, count in counts.items()))


def _explanation(state: JobState) -> str:
    return "\n".join(filter(None, (state.reason, *state.log_tail)))


def publish(
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Also publish what was measured with uncommitted changes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy checked local records to data/results, which only grows: nothing there is ever overwritten."""
    project, catalog = load_project()
    from specatlas.measure.hashes import harness_sha256

    methods = {slug: method.source_sha256 for slug, method in catalog.methods.items()}
    outcomes = publish_records(project, methods, harness_sha256(), allow_dirty=allow_dirty)
    if as_json:
        print_json([asdict(outcome) for outcome in outcomes])
        return
    if not outcomes:
        say(f"There are no records in {relative(project.results / 'records', project)}; `make leaderboard` makes them.")
        return
    rows = [(outcome.outcome, outcome.source, outcome.reason or outcome.target or "") for outcome in outcomes]
    print_table(f"{len(outcomes)} local records", ("outcome", "record", "where to, or why not"), rows)

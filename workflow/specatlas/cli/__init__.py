"""The command line `specatlas`: one module a group of commands. No command imports torch before it needs it."""

import errno
import os
import sys
from collections.abc import Sequence

import typer
from rich.console import Console

from specatlas import __version__
from specatlas.cli import catalog, check, doctor, jobs, results, run
from specatlas.cli.common import DEBUG_VARIABLE
from specatlas.errors import SpecAtlasError

REFUSED = 2
INTERRUPTED = 130

app = typer.Typer(
    name="specatlas",
    help="An atlas and a leaderboard of speculative decoding.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for group in (catalog, run, check, results, doctor, jobs):
    group.register(app)


def _version(shown: bool) -> None:
    if shown:
        print(f"specatlas {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """An atlas and a leaderboard of speculative decoding."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command; every refusal ends in one sentence on standard error and exit code 2.

    SPECATLAS_DEBUG=1 lets the traceback through.
    """
    try:
        app(args=None if arguments is None else list(arguments))
    except SpecAtlasError as error:
        _refuse(str(error), error)
    except OSError as error:
        _refuse(_sentence(error), error)
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted; nothing half-written is left behind.")
        sys.exit(INTERRUPTED)


def _refuse(sentence: str, error: BaseException) -> None:
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    print(f"specatlas: {sentence}", file=sys.stderr)
    sys.exit(REFUSED)


def _sentence(error: OSError) -> str:
    where = f" at {error.filename}" if error.filename else ""
    if error.errno == errno.ENOSPC:
        return f"The disk is full{where}; nothing half-written was left, so free some space and run it again."
    return f"{error.strerror or error}{where}; set {DEBUG_VARIABLE}=1 to see where it happened."

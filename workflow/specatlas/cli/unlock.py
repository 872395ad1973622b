"""Clears what a killed run leaves: Snakemake's lock, and jobs that outlived their Snakemake.

Only processes of this machine are seen. On a file system that several machines share, use `snakemake --unlock` by hand.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from specatlas.cli.common import say
from specatlas.errors import MachineBusy
from specatlas.project import find_project

WAIT_SECONDS = 900


def unlock() -> None:
    """Remove the lock of a run that was killed; refuses while one is alive."""
    root = find_project().root
    for process in _processes(root, "snakemake"):
        raise MachineBusy(f"Snakemake already runs in this checkout (process {process.pid}); wait for it or end it.")
    _wait_for(list(_processes(root, "specatlas")))
    locks = root / ".snakemake" / "locks"
    if locks.is_dir() and any(locks.iterdir()):
        say("An earlier run was killed; removing its lock.")
        command = [sys.executable, "-m", "snakemake", "--unlock", "--quiet", "all"]
        subprocess.run(command, cwd=root, check=True, capture_output=True)


def _wait_for(orphans: list[psutil.Process]) -> None:
    for orphan in orphans:
        say(f"A killed run left a job at work (process {orphan.pid}); waiting for it, since it loads the machine.")
    _, alive = psutil.wait_procs(orphans, timeout=WAIT_SECONDS)
    for process in alive:
        raise MachineBusy(f"Process {process.pid} of an earlier run is still at work; end it, then run this again.")


def _processes(root: Path, program: str) -> Iterator[psutil.Process]:
    """Other processes that run `program` (as a script or with `python -m`) in this checkout."""
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter(["cmdline"]):
        words = (process.info["cmdline"] or [])[:3]
        if process.pid in own or not any(Path(word).name == program for word in words):
            continue
        try:
            if Path(process.cwd()) == root:
                yield process
        except psutil.Error:
            continue

"""Progress of long work: a rich bar on a terminal, plain lines (at most one every few seconds) in a log."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

LINE_INTERVAL_SECONDS = 5.0


class Task(Protocol):
    """One piece of long work under way."""

    def advance(self, steps: float = 1, note: str = "") -> None:
        """Reports `steps` more done; `note` is shown beside the bar."""
        ...


class _BarTask:
    def __init__(self, bar: RichProgress, description: str, total: float) -> None:
        self._bar = bar
        self._id = bar.add_task(description, total=total, note="")

    def advance(self, steps: float = 1, note: str = "") -> None:
        self._bar.update(self._id, advance=steps, note=note)


class _LineTask:
    def __init__(self, description: str, total: float) -> None:
        self._description, self._total = description, total
        self._done, self._start, self._shown = 0.0, time.monotonic(), 0.0

    def advance(self, steps: float = 1, note: str = "") -> None:
        self._done += steps
        elapsed = time.monotonic() - self._start
        if self._done < self._total and elapsed - self._shown < LINE_INTERVAL_SECONDS:
            return
        self._shown = elapsed
        left = elapsed / self._done * (self._total - self._done) if self._done else 0.0
        print(
            f"{self._description}: {self._done:g}/{self._total:g}, {elapsed:.0f} s, {left:.0f} s left {note}".rstrip(),
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def task(description: str, total: float) -> Iterator[Task]:
    """Shows progress of work with `total` steps on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _LineTask(description, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with RichProgress(*columns, console=console) as bar:
        yield _BarTask(bar, description, total)

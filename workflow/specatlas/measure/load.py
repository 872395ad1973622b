"""How busy other processes kept the machine while something was timed. Imports no torch."""

import time
from dataclasses import dataclass

import psutil

SHORTEST_WINDOW_SECONDS = 0.1
"""The kernel counts CPU time in ticks of 10 ms; a shorter window would be mostly rounding."""

_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


@dataclass(frozen=True)
class _Reading:
    wall: float
    machine: float
    own: float

    @classmethod
    def now(cls) -> "_Reading":
        times = psutil.cpu_times()
        busy = sum(getattr(times, kind, 0.0) for kind in _BUSY)
        return cls(time.perf_counter(), busy, time.process_time())


class LoadMeter:
    """Foreign load over a window: CPU time of the whole machine minus this process's own, ÷ wall time, in cores.

    Time that a hypervisor gave to other machines (`steal`) counts as foreign: it slows a run just as much.
    """

    def __init__(self) -> None:
        self._start = _Reading.now()

    def restart(self) -> None:
        """Begins a new window."""
        self._start = _Reading.now()

    def read(self) -> float | None:
        """Foreign load since the window began; null where the window is too short to tell."""
        now = _Reading.now()
        return foreign_load(now.wall - self._start.wall, now.machine - self._start.machine, now.own - self._start.own)


def foreign_load(wall: float, machine: float, own: float) -> float | None:
    """Cores that others kept busy; null for windows shorter than `SHORTEST_WINDOW_SECONDS`.

    Args:
        wall: Length of the window, in seconds.
        machine: CPU time that all processes used in it, in seconds.
        own: CPU time that this process used in it, in seconds.
    """
    if wall < SHORTEST_WINDOW_SECONDS:
        return None
    return round(max(machine - own, 0.0) / wall, 3)

"""What every side of a comparison does: answer a prompt given as ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

Run = Callable[[Sequence[int]], list[int]]
"""From prompt ids to the ids of the greedy answer, EOS included."""


@dataclass(frozen=True)
class Mode:
    """One way of decoding, done by both sides."""

    name: str
    ours: Run
    theirs: Run


@dataclass(frozen=True)
class Timing:
    """One prompt of one mode, summed over cycles.

    Attributes:
        ours, theirs: (tokens, nanoseconds) of each side.
    """

    ours: tuple[int, int]
    theirs: tuple[int, int]


def timed(run: Run, prompt: Sequence[int], wait: Callable[[], None]) -> tuple[int, int]:
    """(tokens, nanoseconds) of one answer, prefill included: `generate()` of other libraries cannot leave it out."""
    wait()
    started = perf_counter_ns()
    ids = run(prompt)
    wait()
    return len(ids), perf_counter_ns() - started


def interleaved(mode: Mode, prompts: Sequence[Sequence[int]], cycles: int, wait: Callable[[], None]) -> list[Timing]:
    """Times both sides prompt by prompt; who goes first alternates, and swaps from cycle to cycle."""
    for run in (mode.ours, mode.theirs):  # warm-up, forgotten
        run(prompts[0])
    sums = [[[0, 0], [0, 0]] for _ in prompts]
    for cycle in range(cycles):
        for place, prompt in enumerate(prompts):
            sides = [(0, mode.ours), (1, mode.theirs)]
            for side, run in sides if (cycle + place) % 2 == 0 else sides[::-1]:
                tokens, elapsed = timed(run, prompt, wait)
                sums[place][side][0] += tokens
                sums[place][side][1] += elapsed
    return [Timing((ours[0], ours[1]), (theirs[0], theirs[1])) for ours, theirs in sums]

"""Counts that come from token ids alone: acceptance length, rate and positions. One set of functions for every arm.

A step is *cut* when trimming at EOS, stop string or limit took its bonus token: then all of its emitted tokens are
draft tokens (emitted = accepted; records allow it in the last step only). Whether verification would have accepted the
draft tokens behind the cut is unknown, so a cut step is judged down to its last accepted position and no further: its
later positions count neither as drafted nor as rejected (in survival analysis: censored). A last step that kept its
bonus token is no exception to anything: the token after `accepted` really was rejected, or nothing more was drafted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specatlas.analysis.schema import PositionAcceptance
from specatlas.records.schema import Sample

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class StepTable:
    """All verification steps of some generations, one array element a step: the columns of `StepCounts`, joined."""

    emitted: Counts
    accepted: Counts
    drafted: Counts
    depth: Counts
    probes: Counts

    @property
    def judged_depth(self) -> Counts:
        """Draft positions, in tokens, on which the step decided: the draft's depth, or up to the cut."""
        return np.where(self.emitted == self.accepted, self.accepted, self.depth)

    @property
    def width(self) -> Counts:
        """Query positions of the target pass: the last committed token, the draft's nodes and the probes."""
        return 1 + self.drafted + self.probes


def step_table(samples: Iterable[Sample]) -> StepTable:
    """Joins the steps of `samples`."""
    steps = [sample.steps for sample in samples]

    def column(name: str) -> Counts:
        return np.array([value for counts in steps for value in getattr(counts, name)], dtype=np.int64)

    return StepTable(*(column(name) for name in ("emitted", "accepted", "drafted", "depth", "probes")))


def arm(samples: Iterable[Sample], name: str) -> list[Sample]:
    """The samples of one arm, `method` or `baseline`."""
    return [sample for sample in samples if sample.arm == name]


def emitted_tokens(samples: Iterable[Sample]) -> int:
    """Tokens emitted in the decode windows; the token from each prefill is not among them."""
    return sum(len(sample.ids) - 1 for sample in samples)


def verification_steps(samples: Iterable[Sample]) -> int:
    """Target passes of the decode windows."""
    return sum(len(sample.steps.emitted) for sample in samples)


def acceptance_length(samples: Sequence[Sample]) -> float | None:
    """AL-1: tokens emitted ÷ verification steps, pooled; null without a step."""
    steps = verification_steps(samples)
    return emitted_tokens(samples) / steps if steps else None


def acceptance_length_vllm(samples: Sequence[Sample]) -> float | None:
    """1 + accepted ÷ steps, as vLLM's counters define it; a cut step counts its lost bonus token."""
    steps = verification_steps(samples)
    accepted = sum(sum(sample.steps.accepted) for sample in samples)
    return (steps + accepted) / steps if steps else None


def acceptance_length_sglang(samples: Sequence[Sample]) -> float | None:
    """Completion tokens ÷ verification steps, as SGLang defines it: the token from each prefill included."""
    steps = verification_steps(samples)
    return sum(len(sample.ids) for sample in samples) / steps if steps else None


def acceptance_rate(samples: Sequence[Sample]) -> float | None:
    """Accepted ÷ drafted nodes, pooled; null where nothing was drafted (unknown is not 0, known fault J09).

    A cut step counts its nodes by the share of the draft's depth that it judged: for a chain exactly the judged tokens.
    Rates of different draft budgets do not compare (known fault J04): use the acceptance length for that.
    """
    table = step_table(samples)
    nodes = float(np.sum(table.drafted * (table.judged_depth / np.maximum(table.depth, 1))))
    return float(table.accepted.sum() / nodes) if nodes else None


def acceptance_by_position(samples: Sequence[Sample]) -> tuple[PositionAcceptance, ...]:
    """Acceptance at each draft position, from tail sums, so gaps in the histogram cost nothing (known fault J14).

    With drafts of one depth and no cut, the product of the conditional rates up to a position is its joint rate; with
    ragged drafts that product is the Kaplan-Meier estimate of the chance to accept that many tokens.
    """
    table = step_table(samples)
    judged = table.judged_depth
    longest = int(judged.max(initial=0))
    drafted = _steps_with_at_least(judged, longest)
    reached = _steps_with_at_least(np.minimum(judged, table.accepted + 1), longest)
    accepted = _steps_with_at_least(table.accepted, longest)
    return tuple(
        PositionAcceptance(position=i + 1, drafted=drafted[i], reached=reached[i], accepted=accepted[i])
        for i in range(longest)
    )


def emitted_histogram(samples: Sequence[Sample]) -> dict[int, int]:
    """Steps by the number of tokens they emitted, ascending; Σ = steps."""
    emitted, steps = np.unique(step_table(samples).emitted, return_counts=True)
    return {int(tokens): int(count) for tokens, count in zip(emitted, steps, strict=True)}


def target_passes_saved(samples: Sequence[Sample]) -> float | None:
    """1 - steps ÷ tokens: the share of plain decoding's target passes that the method saves; null without a token."""
    tokens = emitted_tokens(samples)
    return 1 - verification_steps(samples) / tokens if tokens else None


def repetition_rate(outputs: Iterable[Sequence[int]], n: int = 4) -> float | None:
    """Share of the n-grams of the outputs that occurred earlier in the same output; null without an n-gram."""
    total = distinct = 0
    for ids in outputs:
        grams = [tuple(ids[start : start + n]) for start in range(len(ids) - n + 1)]
        total += len(grams)
        distinct += len(set(grams))
    return (total - distinct) / total if total else None


def _steps_with_at_least(values: Counts, longest: int) -> list[int]:
    """For each position 1 … `longest`: how many of `values` are at least that."""
    histogram = np.bincount(values, minlength=longest + 1)
    tails = histogram[::-1].cumsum()[::-1]
    return [int(count) for count in tails[1 : longest + 1]]

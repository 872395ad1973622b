"""Ranks as ranges: what the data allow, not what the point estimates pretend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import stdtr

from specatlas.analysis.schema import Row
from specatlas.analysis.statistics import (
    CONFIDENCE,
    PromptTime,
    degrees_of_freedom,
    log_speedup_resamples,
    ratio_of_sums,
)
from specatlas.records.schema import UnitStatus, Verdict

LOSSLESS_VERDICTS = frozenset({Verdict.EXACT, Verdict.NEAR_TIE, Verdict.DISTRIBUTION})


@dataclass(frozen=True)
class Comparison:
    """Two methods on the prompts that both have.

    Attributes:
        log_ratio: Natural log of the first's speedup ÷ the second's; positive where the first is faster.
        p_value: Two-sided, of no difference.
    """

    log_ratio: float
    p_value: float


def compare(first: Sequence[PromptTime], second: Sequence[PromptTime]) -> Comparison:
    """Compares two speedups, paired by prompt.

    The standard error is the paired bootstrap's and is read against Student's t. Counting resamples on the wrong side
    of zero instead could not give less than 2 ÷ (resamples + 1), which Holm's correction over the 190 pairs of twenty
    methods turns into a tie of all with all. Fewer than two common prompts: no difference can be shown, p = 1.
    """
    common = {time.prompt_id for time in first} & {time.prompt_id for time in second}
    if len(common) < 2:
        return Comparison(log_ratio=0.0, p_value=1.0)
    left = [time for time in first if time.prompt_id in common]
    right = [time for time in second if time.prompt_id in common]
    difference = float(np.log(ratio_of_sums(left) / ratio_of_sums(right)))
    error = float(np.std(log_speedup_resamples(left) - log_speedup_resamples(right), ddof=1))
    return Comparison(difference, _two_sided(difference, error, degrees_of_freedom(left)))


def _two_sided(difference: float, error: float, degrees: int) -> float:
    if error < 1e-12:  # rounding of float64 logs: the prompts show no spread at all
        return 0.0 if abs(difference) > 1e-9 else 1.0
    return float(2 * stdtr(degrees, -abs(difference) / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for their number (Holm, Scandinavian Journal of Statistics 6, 1979), in the given order."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted


def rank_ranges(times: Mapping[str, Sequence[PromptTime]]) -> dict[str, tuple[int, int]]:
    """Best and worst rank of every method: 1 + those surely faster, and all minus those surely slower.

    Methods that cannot be told apart overlap; where ties are not transitive (A = B, B = C, A faster than C), B spans
    the ranks of both.

    Args:
        times: Times by method; only methods that compete.
    """
    methods = sorted(times)
    pairs = list(combinations(methods, 2))
    found = [compare(times[a], times[b]) for a, b in pairs]
    adjusted = holm([comparison.p_value for comparison in found])
    faster, slower = dict.fromkeys(methods, 0), dict.fromkeys(methods, 0)
    for (a, b), comparison, p in zip(pairs, found, adjusted, strict=True):
        if p < 1 - CONFIDENCE:
            winner, loser = (a, b) if comparison.log_ratio > 0 else (b, a)
            faster[loser] += 1
            slower[winner] += 1
    return {method: (1 + faster[method], len(methods) - slower[method]) for method in methods}


def unranked_reason(row: Row) -> str | None:
    """Why a row does not compete, in words for a reader; null for one that does."""
    errors = [flag.code for flag in row.flags if flag.severity == "error"]
    reasons = (
        (row.status is not UnitStatus.OK, f"{row.status.value.replace('_', ' ')}: {row.reason}"),
        (row.method_class == "control", "control: shown to read the others by"),
        (row.verdict is Verdict.WRONG, "wrong: claims to be lossless but changes the output"),
        (row.verdict is Verdict.LOSSY or not row.lossless, "lossy: changes the output by design"),
        (row.verdict not in LOSSLESS_VERDICTS, "not tested: no exactness gate ran"),
        (any(flag.code == "incomplete" for flag in row.flags), "incomplete: fewer prompts than the set"),
        (bool(errors), f"flagged: {', '.join(errors)}"),
        (row.speedup is None, "nothing to time: no answer has a second token"),
    )
    return next((reason for applies, reason in reasons if applies), None)

"""What a method would gain if only model passes cost time: portable between machines, unlike wall-clock time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specatlas.analysis.counts import emitted_tokens, step_table
from specatlas.records.schema import Sample, StepLatency


@dataclass(frozen=True)
class LatencyCurve:
    """Time of a target pass, in ns, against its width in query positions; ascending, width 1 first.

    Between measured widths the time is linear. Beyond the widest it goes on with the last slope, never a falling one:
    holding the last value would make the widest trees look free.
    """

    widths: tuple[int, ...]
    nanoseconds: tuple[float, ...]

    def __call__(self, widths: NDArray[np.int64]) -> NDArray[np.float64]:
        """Times in ns, in the shape of `widths`."""
        times = np.interp(widths, self.widths, self.nanoseconds)
        beyond = np.maximum(widths - self.widths[-1], 0)
        result: NDArray[np.float64] = times + beyond * self._last_slope
        return result

    @property
    def _last_slope(self) -> float:
        if len(self.widths) < 2:
            return 0.0
        rise = self.nanoseconds[-1] - self.nanoseconds[-2]
        return max(rise / (self.widths[-1] - self.widths[-2]), 0.0)


def latency_curve(latency: Sequence[StepLatency]) -> LatencyCurve | None:
    """The curve through measured latencies (contexts averaged by width); null where width 1 was not measured."""
    by_width: dict[int, list[int]] = defaultdict(list)
    for point in latency:
        by_width[point.width].append(point.nanoseconds)
    if 1 not in by_width:
        return None
    widths = tuple(sorted(by_width))
    return LatencyCurve(widths, tuple(float(np.mean(by_width[width])) for width in widths))


def cost_model_speedup(
    samples: Sequence[Sample], latency: Sequence[StepLatency], draft_pass_ns: float | None
) -> float | None:
    """t(1) · tokens ÷ (Σ over steps of t(width) + draft passes · time of one), with t measured.

    It counts model passes only; the gap to the measured speedup is the overhead of everything else. Null where what it
    needs is unknown: no token, no latency at width 1, a single measured width but wider steps, or draft passes of
    unknown time.

    Args:
        samples: Generations of the method's arm.
        latency: Measured target passes.
        draft_pass_ns: Time of one draft pass, in ns.
    """
    curve, tokens, table = latency_curve(latency), emitted_tokens(samples), step_table(samples)
    draft_passes = sum(sample.draft_passes for sample in samples)
    if curve is None or not tokens or (draft_passes and draft_pass_ns is None):
        return None
    if len(curve.widths) == 1 and table.width.max() > 1:
        return None
    plain = curve.nanoseconds[0] * tokens
    return float(plain / (curve(table.width).sum() + draft_passes * (draft_pass_ns or 0.0)))


def expected_tokens(alpha: float, gamma: int) -> float:
    """Expected tokens of one step of chain drafting: (1 - α^(γ+1)) ÷ (1 - α); γ + 1 for α = 1.

    Equation 1 of Leviathan, Kalman & Matias (2023, arXiv 2211.17192); it takes acceptances as independent with one α.

    Args:
        alpha: Probability that a draft token is accepted.
        gamma: Draft length γ, in tokens.
    """
    return gamma + 1.0 if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def leviathan_speedup(alpha: float, gamma: int, cost: float) -> float:
    """Expected improvement in wall-clock time: (1 - α^(γ+1)) ÷ ((1 - α)(γc + 1)).

    Theorem 3.8 of Leviathan, Kalman & Matias (2023, arXiv 2211.17192); it takes a target pass over γ + 1 positions to
    cost as much as one over a single position. `cost_model_speedup` uses measured widths instead.

    Args:
        alpha: Probability that a draft token is accepted.
        gamma: Draft length γ, in tokens.
        cost: Time of a draft pass ÷ time of a target pass, c.
    """
    return expected_tokens(alpha, gamma) / (gamma * cost + 1)


def best_draft_length(alpha: float, cost: float, longest: int = 32) -> int:
    """The draft length, in tokens, of the largest `leviathan_speedup`; 0 where drafting does not pay; ties: shorter."""
    return max(range(longest + 1), key=lambda gamma: leviathan_speedup(alpha, gamma, cost))

"""Bayesian search of the skipped set, with a linear surrogate that knows what every sublayer costs."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specatlas.engine.transformer import LayerPlan
from specatlas.files import write_text
from specatlas.progress import task

from .costs import Costs
from .exam import Marks

PRIOR_HARM, PRIOR_SPREAD, NOISE = 0.04, 0.04, 0.05
MUTATED_SHARE = 0.5

Skips = NDArray[np.bool_]
"""`[2 · layers]`: attention sublayers, then feed-forward ones; true where skipped."""


@dataclass(frozen=True)
class Trial:
    """One skipped set and its marks.

    Attributes:
        skipped_attention, skipped_feed_forward: Layers.
        matched, positions: Draft tokens that were right, of those judged.
        accepted_per_round, drafted_per_round: With the initial confidence threshold.
        speedup: By the cost model.
    """

    skipped_attention: list[int]
    skipped_feed_forward: list[int]
    matched: int
    positions: int
    accepted_per_round: float
    drafted_per_round: float
    speedup: float

    def skips(self, layers: int) -> Skips:
        """The set as flags."""
        flags = np.zeros(2 * layers, dtype=np.bool_)
        flags[self.skipped_attention] = True
        flags[[layers + layer for layer in self.skipped_feed_forward]] = True
        return flags

    @property
    def harm(self) -> float:
        """-log of the share of right tokens: about a sum over the skipped sublayers."""
        return -math.log((self.matched + 0.5) / (self.positions + 0.5))


class Search:
    """Looks for the skipped set with the largest modelled speedup.

    Each sublayer is taken to do some harm when it is skipped, and harms to add up. Half of the trials draw harms from
    what the trials so far leave likely (Thompson sampling) and skip the sublayers with the least harm for their cost;
    the other half change the best set in one or two places.

    Args:
        layers: Of the target.
        costs: Measured pieces.
        threshold: Confidence below which drafting stops.
        seed: Trial t draws from (seed, t), so a search that was killed goes on as if it had not been.
    """

    def __init__(self, layers: int, costs: Costs, threshold: float, seed: int) -> None:
        self.layers, self.costs, self.threshold, self.seed = layers, costs, threshold, seed
        self.trials: list[Trial] = []
        depth = np.linspace(-1, 1, layers)
        # First and last layers matter most, in the paper's skipped sets as elsewhere.
        self._prior = np.tile(PRIOR_HARM * (0.5 + depth**2), 2)
        self._cost = np.repeat([costs.attention, costs.feed_forward], layers)

    @property
    def best(self) -> Trial:
        """The trial with the largest speedup; the earlier one on a tie."""
        return max(self.trials, key=lambda trial: trial.speedup)

    def run(self, judge: Callable[[LayerPlan], Marks], trials: int, log: Path) -> None:
        """Makes trials until there are `trials`, and keeps them all in `log`, from which a killed search goes on."""
        head = {"seed": self.seed, "layers": self.layers, "threshold": self.threshold, "costs": asdict(self.costs)}
        self.trials = read_log(log, head)[:trials]
        with task("Skipped sublayers", trials) as progress:
            progress.advance(len(self.trials))
            while len(self.trials) < trials:
                self.trials.append(self._judged(self._next(), judge))
                lines = [head, *map(asdict, self.trials)]
                write_text(log, "".join(json.dumps(line) + "\n" for line in lines))
                progress.advance(note=f"modelled speedup {self.best.speedup:.3f}")

    def _judged(self, skips: Skips, judge: Callable[[LayerPlan], Marks]) -> Trial:
        plan = plan_from(skips)
        marks = judge(plan)
        rounds = marks.rounds(self.threshold)
        return Trial(
            sorted(plan.skipped_attention),
            sorted(plan.skipped_feed_forward),
            marks.matched,
            marks.positions,
            sum(accepted for _, accepted in rounds) / len(rounds),
            sum(drafted for drafted, _ in rounds) / len(rounds),
            self.costs.speedup(rounds, self._draft_cost(skips)),
        )

    def _draft_cost(self, skips: Skips) -> float:
        kept = ~skips
        return self.costs.draft(int(kept[: self.layers].sum()), int(kept[self.layers :].sum()))

    def _next(self) -> Skips:
        random = np.random.default_rng((self.seed, len(self.trials)))
        tried = {trial.skips(self.layers).tobytes() for trial in self.trials}
        if self.trials and random.random() < MUTATED_SHARE:
            skips = self.best.skips(self.layers)
            skips[random.integers(2 * self.layers, size=random.integers(1, 3))] ^= True
        else:
            skips = self._likely_best(random)
        for _ in range(4 * self.layers):
            if skips.tobytes() not in tried:
                break
            skips[random.integers(2 * self.layers)] ^= True
        return skips

    def _likely_best(self, random: np.random.Generator) -> Skips:
        """The best set under one draw of the harms."""
        harm = np.maximum(self._drawn_harms(random), 1e-4)
        order = np.argsort(harm / self._cost.clip(1e-6), kind="stable")
        best, chosen = 0.0, 0
        for count in range(len(order) + 1):
            skips = np.isin(np.arange(len(order)), order[:count])
            speedup = self.costs.expected_speedup(math.exp(-harm[order[:count]].sum()), self._draft_cost(skips))
            if speedup > best:
                best, chosen = speedup, count
        return np.isin(np.arange(len(order)), order[:chosen])

    def _drawn_harms(self, random: np.random.Generator) -> NDArray[np.float64]:
        """Bayesian linear regression: normal prior, and noise that grows with the harm, where adding up fails."""
        precision = np.eye(2 * self.layers) / PRIOR_SPREAD**2
        weighted = self._prior / PRIOR_SPREAD**2
        for trial in self.trials:
            flags = trial.skips(self.layers).astype(np.float64)
            variance = (NOISE + 0.3 * trial.harm) ** 2
            precision += np.outer(flags, flags) / variance
            weighted = weighted + flags * trial.harm / variance
        mean = np.linalg.solve(precision, weighted)
        # With precision = L Lᵀ, mean + L⁻ᵀ z has the posterior's covariance.
        factor = np.linalg.cholesky(precision)
        drawn: NDArray[np.float64] = mean + np.linalg.solve(factor.T, random.standard_normal(2 * self.layers))
        return drawn


def plan_from(skips: Skips) -> LayerPlan:
    """Flags as a plan."""
    attention, feed_forward = np.split(skips, 2)
    return LayerPlan(
        skipped_attention=frozenset(np.flatnonzero(attention).tolist()),
        skipped_feed_forward=frozenset(np.flatnonzero(feed_forward).tolist()),
    )


def logged_costs(log: Path) -> Costs | None:
    """The costs that a killed search measured, so that its trials stay comparable; None where there was none."""
    lines = _lines(log)
    if not lines:
        return None
    costs = lines[0]["costs"]
    return Costs(costs["attention"], costs["feed_forward"], costs["head"], tuple(costs["verify"]))


def read_log(log: Path, head: dict[str, Any]) -> list[Trial]:
    """The trials of a killed search; none where it was another search."""
    lines = _lines(log)
    if not lines or lines[0] != json.loads(json.dumps(head)):
        return []
    return [Trial(**line) for line in lines[1:]]


def _lines(log: Path) -> list[dict[str, Any]]:
    if not log.is_file():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]

"""Speedup and its uncertainty. The unit of analysis is the prompt: its turns and cycles are pooled.

Interval: a bootstrap over prompts, stratified by category, of the ratio of sums.

* *Paired*: a resample draws prompts, and a prompt brings the times of both arms. Cycles of a prompt are not independent
  observations of the suite, so they travel with it (cluster bootstrap); more cycles make a prompt's time sharper, they
  do not add prompts.
* *Rescaled* (Rao & Wu, JASA 83, 1988): of the n prompts of a category, n - 1 are drawn and weighted n ÷ (n - 1). The
  plain stratified bootstrap understates the variance by (n - 1) ÷ n in every category, half of it for two prompts.
* *Expanded percentile* (Hesterberg, The American Statistician 69, 2015): quantiles are taken at Φ(-t) instead of 2.5 %,
  with Student's t for prompts - categories degrees of freedom. Percentile rather than BCa because it is invariant to
  the log and asks for no jackknife, whose acceleration is noise on a category of a few prompts, while the ratio of two
  sums of positive times has little skew to correct.
* With fewer than `FEW_DEGREES` degrees of freedom (say, two prompts in each of five categories) too few different
  resamples exist to have tails: simulated percentiles covered 76 % for three categories of two prompts. The interval
  is then Student's t times the bootstrap's standard error, on the log, which covered 94 to 96 %.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from specatlas.analysis.schema import Interval, Speedup
from specatlas.records.schema import Sample

Floats = NDArray[np.float64]

RESAMPLES = 4_000
SEED = 20_260_131
CONFIDENCE = 0.95
FEW_DEGREES = 8
MATCHED_PROMPTS = 3  # fewer prompts in both thirds say less about drift than all of them pooled


@dataclass(frozen=True)
class PromptTime:
    """Decode windows of one prompt, summed over its turns and cycles, for both arms; times in ns."""

    prompt_id: str
    category: str
    baseline_ns: int
    baseline_tokens: int
    method_ns: int
    method_tokens: int

    @property
    def speedup(self) -> float:
        """Time per token of plain decoding ÷ that of the method."""
        return (self.baseline_ns / self.baseline_tokens) / (self.method_ns / self.method_tokens)


def has_window(sample: Sample) -> bool:
    """Whether a time per token exists: something was emitted after the prefill token (known faults K08, L05)."""
    return len(sample.ids) > 1 and sample.decode_ns > 0


def prompt_times(samples: Iterable[Sample]) -> tuple[PromptTime, ...]:
    """Times by prompt, sorted by category and id.

    A (prompt, turn, cycle) of which either arm emitted nothing to time is left out for both, so the arms stay paired;
    a prompt of which nothing is left does not appear.
    """
    pairs: dict[tuple[str, int, int], dict[str, Sample]] = defaultdict(dict)
    for sample in samples:
        pairs[sample.prompt_id, sample.turn, sample.cycle][sample.arm] = sample
    by_prompt: dict[str, list[dict[str, Sample]]] = defaultdict(list)
    for (prompt_id, _, _), pair in pairs.items():
        if len(pair) == 2 and all(has_window(sample) for sample in pair.values()):
            by_prompt[prompt_id].append(pair)
    times = [_prompt_time([pair["baseline"] for pair in p], [pair["method"] for pair in p]) for p in by_prompt.values()]
    return tuple(sorted(times, key=lambda time: (time.category, time.prompt_id)))


def _prompt_time(baseline: list[Sample], method: list[Sample]) -> PromptTime:
    return PromptTime(
        prompt_id=method[0].prompt_id,
        category=method[0].category,
        baseline_ns=sum(sample.decode_ns for sample in baseline),
        baseline_tokens=sum(len(sample.ids) - 1 for sample in baseline),
        method_ns=sum(sample.decode_ns for sample in method),
        method_tokens=sum(len(sample.ids) - 1 for sample in method),
    )


def ratio_of_sums(times: Sequence[PromptTime]) -> float:
    """(Σ baseline time ÷ Σ baseline tokens) ÷ (Σ method time ÷ Σ method tokens)."""
    return float(np.exp(_log_ratio(_sums(times).sum(axis=0))))


def geometric_mean(times: Sequence[PromptTime]) -> float:
    """Geometric mean of the per-prompt speedups."""
    return float(np.exp(np.mean([np.log(time.speedup) for time in times])))


def speedup(times: Sequence[PromptTime], resamples: int = RESAMPLES, seed: int = SEED) -> Speedup | None:
    """Speedup with its interval; null without a prompt, and without an interval for a single prompt."""
    if not times:
        return None
    interval = None
    if len(times) > 1:
        interval = _interval(log_speedup_resamples(times, resamples, seed), times)
    return Speedup(ratio_of_sums=ratio_of_sums(times), geometric_mean=geometric_mean(times), interval=interval)


def log_speedup_resamples(times: Sequence[PromptTime], resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Natural log of the ratio of sums in every resample [resamples]; needs two prompts or more.

    The resamples depend on the prompts' categories and the seed alone, so two methods on the same prompts get the same
    ones, and the difference of their values is the paired bootstrap of the difference.
    """
    return _log_draws(tuple(times), resamples, seed)


@lru_cache(maxsize=256)  # ranking asks for each method's draws once a rival
def _log_draws(times: tuple[PromptTime, ...], resamples: int, seed: int) -> Floats:
    draws = _log_ratio(resample_weights(_strata(times), resamples, seed) @ _sums(times))
    draws.setflags(write=False)
    return draws


@lru_cache(maxsize=32)
def resample_weights(strata: tuple[int, ...], resamples: int, seed: int) -> Floats:
    """Rao-Wu weights [resamples, prompts]: n - 1 of a stratum's n prompts drawn, each draw weighing n ÷ (n - 1)."""
    generator = np.random.default_rng(seed)
    weights = np.empty((resamples, len(strata)))
    for stratum in sorted(set(strata)):
        members = np.flatnonzero(np.array(strata) == stratum)
        n = len(members)
        draws = generator.multinomial(n - 1, np.full(n, 1 / n), size=resamples)
        weights[:, members] = draws * (n / (n - 1))
    weights.setflags(write=False)
    return weights


def _interval(log_draws: Floats, times: Sequence[PromptTime]) -> Interval:
    """The interval at `CONFIDENCE` from resampled log speedups."""
    degrees = degrees_of_freedom(times)
    t = float(stdtrit(degrees, (1 - CONFIDENCE) / 2))
    if degrees < FEW_DEGREES:
        middle, error = np.log(ratio_of_sums(times)), np.std(log_draws, ddof=1)
        low, high = np.exp([middle + t * error, middle - t * error])
    else:
        low, high = np.exp(np.quantile(log_draws, [ndtr(t), 1 - ndtr(t)]))
    return Interval(low=float(low), high=float(high))


def degrees_of_freedom(times: Sequence[PromptTime]) -> int:
    """Prompts - strata: what is left to estimate the spread from."""
    strata = _strata(times)
    return len(strata) - len(set(strata))


def baseline_drift(samples: Iterable[Sample]) -> float | None:
    """Relative change of plain decoding's time per token from the first to the last third of the unit, by `order`.

    Where enough prompts were decoded in both thirds, the mean over those prompts (a change of prompts is no drift);
    otherwise the two thirds pooled. Null with fewer than three timed generations.
    """
    timed = [sample for sample in samples if sample.arm == "baseline" and has_window(sample)]
    timed.sort(key=lambda sample: sample.order)
    third = len(timed) // 3
    if not third:
        return None
    first, last = _times_per_token(timed[:third]), _times_per_token(timed[-third:])
    common = sorted(first.keys() & last.keys())
    if len(common) >= MATCHED_PROMPTS:
        return float(np.expm1(np.mean([np.log(last[key] / first[key]) for key in common])))
    return _time_per_token(timed[-third:]) / _time_per_token(timed[:third]) - 1


def _times_per_token(samples: Sequence[Sample]) -> dict[tuple[str, int], float]:
    groups: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.prompt_id, sample.turn].append(sample)
    return {key: _time_per_token(group) for key, group in groups.items()}


def _time_per_token(samples: Sequence[Sample]) -> float:
    """Pooled decode time per token, in ns."""
    return sum(sample.decode_ns for sample in samples) / sum(len(sample.ids) - 1 for sample in samples)


def _strata(times: Sequence[PromptTime]) -> tuple[int, ...]:
    """Stratum of every prompt: its category; categories of one prompt are collapsed, since one shows no spread."""
    sizes = Counter(time.category for time in times)
    collapsed = {category for category, size in sizes.items() if size == 1}
    if len(collapsed) == 1 and len(sizes) > 1:
        collapsed.add(min((size, category) for category, size in sizes.items() if category not in collapsed)[1])
    names = sorted(sizes.keys() - collapsed)
    return tuple(names.index(time.category) if time.category in names else len(names) for time in times)


def _sums(times: Sequence[PromptTime]) -> Floats:
    """[prompts, 4]: baseline ns, baseline tokens, method ns, method tokens."""
    return np.array(
        [(time.baseline_ns, time.baseline_tokens, time.method_ns, time.method_tokens) for time in times], dtype=float
    )


def _log_ratio(sums: Floats) -> Floats:
    """Log speedup of [..., 4] sums."""
    logs = np.log(sums)
    result: Floats = logs[..., 0] - logs[..., 1] - logs[..., 2] + logs[..., 3]
    return result

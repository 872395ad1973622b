import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specatlas.analysis import statistics
from specatlas.analysis.statistics import PromptTime, prompt_times, speedup

from .factory import NS_PER_TOKEN, Unit, make_samples, plain, sample, steps

HAND = (
    PromptTime("a", "writing", baseline_ns=1000, baseline_tokens=10, method_ns=500, method_tokens=10),
    PromptTime("b", "writing", baseline_ns=3000, baseline_tokens=30, method_ns=3000, method_tokens=30),
)


def pair(tokens: int, method_tokens: int | None = None, **changes):
    other = tokens if method_tokens is None else method_tokens
    return [sample(plain(tokens), arm="baseline", **changes), sample(plain(other), arm="method", **changes)]


def test_hand_computed_speedups():
    assert statistics.ratio_of_sums(HAND) == pytest.approx(4000 / 3500)
    assert statistics.geometric_mean(HAND) == pytest.approx(math.sqrt(2))


def test_outputs_of_different_length_compare_by_time_per_token():
    times = (PromptTime("a", "writing", baseline_ns=1000, baseline_tokens=10, method_ns=2000, method_tokens=40),)
    assert statistics.ratio_of_sums(times) == pytest.approx(2.0)
    assert times[0].speedup == pytest.approx(2.0)


def test_turns_and_cycles_of_a_prompt_are_pooled():
    samples = pair(4) + pair(6, turn=1) + pair(4, cycle=1)
    (time,) = prompt_times(samples)
    assert (time.baseline_tokens, time.method_tokens) == (14, 14)
    assert time.baseline_ns == 14 * NS_PER_TOKEN


def test_a_generation_without_a_decode_window_is_left_out_with_its_partner():
    """Known faults K08 and L05: no rate under two tokens, for neither arm."""
    samples = pair(4) + pair(9, method_tokens=0, cycle=1) + pair(0, prompt_id="empty")
    (time,) = prompt_times(samples)
    assert (time.prompt_id, time.baseline_tokens, time.method_tokens) == ("p0", 4, 4)
    assert speedup(prompt_times(pair(0))) is None


def test_one_prompt_has_a_speedup_but_no_interval():
    found = speedup(HAND[:1])
    assert found.ratio_of_sums == 2.0
    assert found.interval is None


def test_interval_is_deterministic_and_independent_of_sample_order():
    samples = make_samples(Unit())
    assert speedup(prompt_times(samples)) == speedup(prompt_times(samples[::-1]))


def test_equal_prompts_give_a_point():
    times = [replace(HAND[0], prompt_id=str(i)) for i in range(5)]
    interval = speedup(times).interval
    assert interval.low == interval.high == pytest.approx(2.0)


def test_stratification_removes_the_spread_between_categories():
    """Two categories that differ ten-fold but agree within: the interval is a point."""
    slow = [PromptTime(f"s{i}", "slow", 1000, 10, 1000, 10) for i in range(4)]
    fast = [PromptTime(f"f{i}", "fast", 1000, 10, 100, 10) for i in range(4)]
    interval = speedup([*slow, *fast]).interval
    assert interval.high - interval.low < 1e-6


def test_categories_of_one_prompt_are_resampled_together():
    """Each in its own stratum, they would show no spread at all."""
    times = [replace(HAND[i % 2], prompt_id=str(i), category=str(i)) for i in range(6)]
    interval = speedup(times).interval
    assert interval.high - interval.low > 0.1
    assert statistics.degrees_of_freedom(times) == 5
    lonely = [replace(HAND[0], category="only"), *(replace(HAND[1], prompt_id=str(i)) for i in range(3))]
    assert statistics.degrees_of_freedom(lonely) == 3


@given(st.lists(st.integers(2, 9), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_weights_of_a_stratum_sum_to_its_prompts(sizes):
    strata = tuple(stratum for stratum, size in enumerate(sizes) for _ in range(size))
    weights = statistics.resample_weights(strata, 50, seed=1)
    for stratum, size in enumerate(sizes):
        assert np.allclose(weights[:, np.array(strata) == stratum].sum(axis=1), size)


def test_rescaling_gives_the_unbiased_variance_of_a_mean():
    """Two prompts: the plain bootstrap would give half of s² ÷ n."""
    weights = statistics.resample_weights((0, 0), 20_000, seed=1)
    values = np.array([1.0, 3.0])
    assert np.var(weights @ values / 2) == pytest.approx(np.var(values, ddof=1) / 2, rel=0.03)


@pytest.mark.parametrize("suite", [{"a": 12, "b": 12}, dict.fromkeys("abcd", 3), dict.fromkeys("abc", 2), {"a": 2}])
def test_interval_covers_the_true_speedup(suite):
    """At 95 % nominal over 200 simulated suites; three standard errors of that estimate are 4.6 points."""
    generator = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        times = []
        for category, size in suite.items():
            for i in range(size):
                slower = generator.normal(1, 0.15)
                times.append(PromptTime(f"{category}{i}", category, 1_500_000, 100, int(1_000_000 * slower), 100))
        interval = speedup(times, resamples=1000).interval
        hits += interval.low <= 1.5 <= interval.high
    assert 0.90 <= hits / 200 <= 0.996


def test_drift_is_that_of_the_prompts_in_both_thirds():
    """Prompts of different cost in the two thirds are no drift; the same prompts slower are."""
    samples = make_samples(Unit(cycles=3, noise=0.0))
    assert statistics.baseline_drift(samples) == pytest.approx(0, abs=1e-6)
    drifted = make_samples(Unit(cycles=3, noise=0.0, drift=0.3))
    assert statistics.baseline_drift(drifted) == pytest.approx(0.2 / 1.05, abs=0.02)


def test_drift_without_common_prompts_pools_the_thirds():
    samples = [s for i in range(6) for s in pair(4, prompt_id=str(i), order=i)]
    slower = [s.model_copy(update={"decode_ns": s.decode_ns * (2 if s.order >= 4 else 1)}) for s in samples]
    assert statistics.baseline_drift(slower) == pytest.approx(1.0)
    assert statistics.baseline_drift(pair(4)) is None


def test_method_times_do_not_enter_the_drift():
    samples = [sample(steps([1]), order=i, cycle=i, decode_ns=1 + i) for i in range(9)]
    assert statistics.baseline_drift(samples) is None

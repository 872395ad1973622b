from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specatlas.analysis.ranking import compare, holm, rank_ranges
from specatlas.analysis.statistics import PromptTime, prompt_times

from .factory import Unit, make_samples


def times(speedup: float, seed: int = 0, **changes):
    return prompt_times(make_samples(Unit(speedup=speedup, seed=seed, **changes)))


def test_clear_differences_give_plain_ranks():
    assert rank_ranges({"a": times(1.2), "b": times(3.0, 1), "c": times(2.0, 2)}) == {
        "a": (3, 3),
        "b": (1, 1),
        "c": (2, 2),
    }


def test_ties_share_ranks():
    ranges = rank_ranges({"a": times(2.0), "b": times(2.0, 1), "c": times(1.1, 2)})
    assert ranges == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}


def test_ties_that_do_not_pass_on_span_both_ranks():
    """The middle one is told from neither neighbour, the outer two from each other.

    Eight prompts, per-prompt log speedups ± 0.05 in orthogonal patterns: the standard error of a difference is
    0.05 · √(2/7) = 0.027, so a gap of 0.0455 has t = 1.7 (p = 0.13) and twice that t = 3.4 (p = 0.011, times 3).
    """
    patterns = {"a": (1, -1, 1, -1, 1, -1, 1, -1), "b": (1, 1, -1, -1, 1, 1, -1, -1), "c": (1, -1, -1, 1, 1, -1, -1, 1)}
    levels = {"a": 0.0455, "b": 0.0, "c": -0.0455}
    methods = {
        name: [
            PromptTime(str(i), "one", 10**9, 100, int(10**9 * exp(-levels[name] - 0.05 * sign)), 100)
            for i, sign in enumerate(pattern)
        ]
        for name, pattern in patterns.items()
    }
    assert rank_ranges(methods) == {"a": (1, 2), "b": (1, 3), "c": (2, 3)}


def test_a_method_ties_with_itself_and_beats_its_slower_copy():
    mine = times(2.0)
    slower = tuple(replace(time, method_ns=time.method_ns * 2) for time in mine)
    assert compare(mine, mine).p_value == 1.0
    assert compare(mine, slower).p_value < 1e-9
    assert compare(mine, slower).log_ratio > 0 > compare(slower, mine).log_ratio


def test_exactly_scaled_copies_show_no_spread():
    mine = times(2.0)
    plain = tuple(replace(time, method_ns=2 * time.baseline_ns) for time in mine)
    doubled = tuple(replace(time, method_ns=4 * time.baseline_ns) for time in mine)
    assert compare(plain, doubled).p_value == 0.0


def test_comparison_uses_common_prompts_only():
    mine, other = times(2.0), times(1.0, 1)
    assert compare(mine, other[:-3]) == compare(mine[:-3], other[:-3])
    assert compare(mine[:1], other).p_value == 1.0
    assert compare((), other).p_value == 1.0


def test_ranking_needs_no_rival_and_no_row():
    assert rank_ranges({"a": times(2.0)}) == {"a": (1, 1)}
    assert rank_ranges({}) == {}


def test_twenty_methods_can_still_be_told_apart():
    """190 pairs: counted tails of 4,000 resamples could not pass Holm's correction."""
    methods = {f"m{i:02}": times(1.0 * 1.4**i, i) for i in range(20)}
    assert rank_ranges(methods) == {f"m{i:02}": (20 - i, 20 - i) for i in range(20)}


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_only_raises_and_keeps_order(values):
    adjusted = holm(values)
    assert all(1 >= after >= before for before, after in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=lambda i: values[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)


def test_equal_methods_are_rarely_told_apart():
    """Family-wise error: of 40 boards of four equal methods, at 5 % two are expected to show a difference."""
    wrong = 0
    for board in range(40):
        units = {str(i): times(1.5, seed=100 * board + i, cycles=1) for i in range(4)}
        wrong += any(rank != (1, 4) for rank in rank_ranges(units).values())
    assert wrong <= 7

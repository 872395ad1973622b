import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specatlas.analysis import cost_model
from specatlas.analysis.cost_model import cost_model_speedup, expected_tokens, latency_curve, leviathan_speedup
from specatlas.records.schema import StepLatency

from .factory import plain, sample, steps


def latency(**times: int) -> tuple[StepLatency, ...]:
    return tuple(StepLatency(width=int(key[1:]), context=64, nanoseconds=value) for key, value in times.items())


def test_curve_is_linear_between_widths_and_goes_on_with_the_last_slope():
    curve = latency_curve(latency(w8=16, w1=10, w4=12))
    assert curve(np.array([1, 2, 4, 6, 8, 10])) == pytest.approx([10, 10 + 2 / 3, 12, 14, 16, 18])


def test_curve_never_falls_beyond_the_widest():
    assert latency_curve(latency(w1=10, w4=9))(np.array([8])) == pytest.approx([9])


def test_contexts_of_one_width_are_averaged():
    points = (StepLatency(width=1, context=8, nanoseconds=10), StepLatency(width=1, context=64, nanoseconds=20))
    assert latency_curve(points).nanoseconds == (15.0,)


def test_hand_computed_speedup():
    """7 tokens in 3 steps of width 5, 2 draft passes: 7 · 10 ÷ (3 · 12 + 2 · 2)."""
    samples = [sample(steps([4, 0, 0]), draft_passes=2)]
    assert cost_model_speedup(samples, latency(w1=10, w5=12), 2.0) == pytest.approx(70 / 40)


def test_probes_widen_the_pass():
    counts = steps([1]).model_copy(update={"probes": (4,)})
    assert cost_model_speedup([sample(counts)], latency(w1=10, w9=30), None) == pytest.approx(20 / 30)


def test_plain_decoding_is_one():
    assert cost_model_speedup([sample(plain(6))], latency(w1=10), None) == 1.0


@pytest.mark.parametrize(
    ("samples", "points", "draft_pass_ns"),
    [
        ([sample(plain(0))], latency(w1=10), None),
        ([sample(steps([1]))], (), None),
        ([sample(steps([1]))], latency(w2=10, w8=20), None),
        ([sample(steps([1]))], latency(w1=10), None),
        ([sample(steps([1]), draft_passes=1)], latency(w1=10, w8=20), None),
    ],
    ids=["no token", "no latency", "no width 1", "one width", "draft passes of unknown time"],
)
def test_unknown_is_null(samples, points, draft_pass_ns):
    assert cost_model_speedup(samples, points, draft_pass_ns) is None


def test_closed_forms():
    assert expected_tokens(0.8, 4) == pytest.approx(1 + 0.8 + 0.64 + 0.512 + 0.4096)
    assert expected_tokens(1.0, 4) == 5
    assert expected_tokens(0.0, 4) == 1
    assert leviathan_speedup(0.75, 7, 0.02) == pytest.approx((1 - 0.75**8) / 0.25 / 1.14)
    assert cost_model.best_draft_length(0.5, 0.6) == 0
    assert cost_model.best_draft_length(0.9, 0.0, longest=9) == 9


@given(st.floats(0, 1), st.integers(0, 20))
def test_expected_tokens_is_the_sum_of_powers(alpha, gamma):
    assert expected_tokens(alpha, gamma) == pytest.approx(sum(alpha**i for i in range(gamma + 1)), rel=1e-6)


def test_model_and_closed_form_agree_where_the_closed_form_holds():
    """A flat latency curve and steps that realise α: Leviathan's formula and the measured model coincide."""
    samples = [sample(steps([4, 4, 4, 4]), draft_passes=16)]
    flat = latency(w1=100, w5=100)
    assert cost_model_speedup(samples, flat, 10.0) == pytest.approx(leviathan_speedup(1.0, 4, 0.1))

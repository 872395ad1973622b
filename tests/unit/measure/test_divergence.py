"""Near ties on hand-made logits, first differences, interleaving and quality figures."""

import math

import pytest
import torch

from specatlas.catalog.card import Losslessness
from specatlas.measure.arms import schedule
from specatlas.measure.divergence import (
    MISSING,
    divergence,
    first_difference,
    judged_by_logits,
    last_logits,
    teacher_forced_judge,
)
from specatlas.measure.exactness import Gate, greedy_exactness
from specatlas.measure.latency import step_latencies
from specatlas.measure.quality import agreement, log_probabilities, repetition
from specatlas.measure.questions import Question, spread
from specatlas.measure.rounding import TOLERANCE_ULP, ulp
from specatlas.records.schema import Verdict
from tests.support.models import tiny_transformer

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
QUESTION = Question("open_chat-1", "open_chat", 0, (1, 2, 3))


@pytest.mark.parametrize(
    ("value", "dtype", "size"),
    [
        (16.0, BF16, 0.125),
        (31.9, BF16, 0.125),
        (32.0, BF16, 0.25),
        (-20.0, BF16, 0.125),
        (1.0, BF16, 2**-7),
        (20.0, FP16, 2**-6),
        (1.0, FP32, 2**-23),
        (20.0, FP32, 2**-19),
    ],
)
def test_ulp(value, dtype, size):
    assert ulp(value, dtype) == size


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
def test_ulp_is_the_distance_to_the_next_number(dtype):
    integers = {BF16: torch.int16, FP16: torch.int16, FP32: torch.int32}[dtype]
    for value in (0.37, 1.0, 5.5, 17.0, 250.0):
        number = torch.tensor(value, dtype=dtype)
        following = (number.view(integers) + 1).view(dtype)
        assert ulp(float(number), dtype) == float(following.double() - number.double())
    assert ulp(0.0, dtype) > 0


def parted(expected=4, got=7):
    return divergence(QUESTION, 0, [1, expected], [1, got])


def with_logits(top, other, third=-5.0):
    logits = torch.full((10,), -9.0)
    logits[4], logits[7], logits[2] = top, other, third
    return logits


@pytest.mark.parametrize(
    ("gap", "near"), [(0.0, True), (0.125, True), (TOLERANCE_ULP[BF16] * 0.125, True), (3.0, False)]
)
def test_gap_is_in_ulp_of_the_larger_logit(gap, near):
    one = judged_by_logits(parted(), with_logits(20.0, 20.0 - gap), BF16)
    assert one.gap_ulp == pytest.approx(gap / 0.125)
    assert one.near_tie is near
    swapped = judged_by_logits(parted(), with_logits(20.0 - gap, 20.0), BF16)
    assert swapped.gap_ulp == one.gap_ulp


def test_a_gap_that_is_a_tie_in_bf16_is_none_in_fp32():
    assert judged_by_logits(parted(), with_logits(20.0, 19.9), BF16).near_tie
    assert not judged_by_logits(parted(), with_logits(20.0, 19.9), FP32).near_tie


def test_two_equal_losers_are_no_tie():
    assert not judged_by_logits(parted(), with_logits(2.0, 2.0, third=20.0), BF16).near_tie


def test_first_difference():
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 4, 3]) == 1
    assert first_difference([1, 2, 3], [1, 2]) == 2
    assert divergence(QUESTION, 0, [1, 2], [1, 2]) is None
    short = divergence(QUESTION, 0, [1, 2, 3], [1, 2])
    assert (short.expected, short.got) == (3, MISSING)


def test_an_answer_that_ends_early_is_no_tie():
    judge = teacher_forced_judge(tiny_transformer(seed=3))
    assert not judge(QUESTION, divergence(QUESTION, 0, [1, 2, 3], [1, 2]), [1, 2, 3]).near_tie


def test_teacher_forced_logits_are_those_of_one_pass():
    target = tiny_transformer(seed=3)
    tokens = [1, 2, 3, 4, 5]
    hidden = target.forward_causal(torch.tensor([tokens])).hidden[:, -1]
    assert torch.allclose(last_logits(target, tokens), target.logits(hidden)[0], atol=1e-4)


def test_verdicts():
    tie = judged_by_logits(parted(), with_logits(20.0, 20.0), BF16)
    off = judged_by_logits(parted(), with_logits(20.0, 2.0), BF16)
    exact, passed = Losslessness.EXACT, Gate(6)
    verdict = lambda *args: greedy_exactness(*args).verdict  # noqa: E731
    assert verdict(exact, passed, 8, ()) is Verdict.EXACT
    assert verdict(exact, passed, 8, (tie,)) is Verdict.NEAR_TIE
    assert verdict(exact, passed, 8, (tie, off)) is Verdict.WRONG
    assert verdict(exact, Gate(6, (tie,)), 8, ()) is Verdict.WRONG
    assert verdict(exact, Gate(skipped="gate_prompts is 0"), 8, (tie,)) is Verdict.NOT_TESTED
    assert verdict(exact, Gate(skipped="gate_prompts is 0"), 8, (off,)) is Verdict.WRONG
    assert verdict(Losslessness.LOSSY, Gate(), 8, (off,)) is Verdict.LOSSY
    noted = greedy_exactness(exact, passed, 8, (), ["Plain decoding gave different ids in different runs."])
    assert noted.detail.endswith("different runs.")


def test_schedule_is_drawn_and_balanced():
    slots = schedule(40, 2, seed=5)
    assert slots == schedule(40, 2, seed=5) != schedule(40, 2, seed=6)
    leads = {(slot.cycle, slot.group): slot.arm for slot in slots[::2]}
    assert {leads[0, group] for group in range(40)} == {"method", "baseline"}
    assert all(leads[0, group] != leads[1, group] for group in range(40))
    assert [(slot.cycle, slot.group) for slot in slots[::2]] == [(c, g) for c in range(2) for g in range(40)]


def test_spread_reaches_both_halves():
    assert spread(list(range(24)), 6) == [0, 4, 8, 12, 16, 20]
    assert spread([1, 2], 6) == [1, 2]
    assert spread([1, 2], 0) == []


def test_repetition_and_agreement():
    assert repetition([[1, 2, 3, 4, 1, 2, 3, 4]]) == pytest.approx(1 / 5)
    assert repetition([[1, 2, 3]]) == 0.0
    assert agreement([([1, 2, 3, 4], [1, 2, 9, 4]), ([1, 2], [1, 2])]) == pytest.approx(4 / 6)
    assert agreement([([1, 2], [1, 2, 3, 4])]) == 0.5


def test_log_probabilities_are_the_targets():
    target = tiny_transformer(seed=3)
    scores = target.logits(target.forward_causal(torch.tensor([[1, 2, 3, 4]])).hidden)[0].log_softmax(-1)
    assert log_probabilities(target, [1, 2], [3, 4, 5]) == pytest.approx(
        [float(scores[1, 3]), float(scores[2, 4]), float(scores[3, 5])], abs=1e-4
    )
    assert not any(math.isnan(value) for value in log_probabilities(target, [1], [2]))


def test_latencies_cover_the_widths():
    points = step_latencies(tiny_transformer(seed=3), [1, 4], context=20, batch=2, repetitions=3)
    assert [(point.width, point.context) for point in points] == [(1, 20), (4, 20)]
    assert all(point.nanoseconds > 0 for point in points)
    assert step_latencies(tiny_transformer(seed=3), [1, 8], context=10_000, batch=1, repetitions=1)[0].context == 248

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specatlas.analysis import counts
from specatlas.records.schema import StepCounts

from .factory import plain, sample, steps


def test_hand_computed_counts():
    """Emitted 3, 1, 5, 2 and 4 (cut) of drafts of 4: 15 tokens in 5 steps, 11 accepted."""
    samples = [sample(steps([2, 0, 4, 1])), sample(steps([4], cut=True), cycle=1)]
    assert counts.acceptance_length(samples) == 15 / 5
    assert counts.acceptance_length_vllm(samples) == 1 + 11 / 5
    assert counts.acceptance_length_sglang(samples) == 17 / 5
    assert counts.acceptance_rate(samples) == 11 / 20
    assert counts.emitted_histogram(samples) == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}
    assert counts.target_passes_saved(samples) == pytest.approx(1 - 5 / 15)
    positions = counts.acceptance_by_position(samples)
    assert [p.drafted for p in positions] == [5, 5, 5, 5]
    assert [p.reached for p in positions] == [5, 4, 3, 2]
    assert [p.accepted for p in positions] == [4, 3, 2, 2]


def test_worked_example_of_the_definitions():
    """40 steps emit 100 tokens plus the prefill token: 2.50, 2.50 and 2.525."""
    samples = [sample(steps([1] * 20 + [2] * 20))]
    assert counts.acceptance_length(samples) == 2.5
    assert counts.acceptance_length_vllm(samples) == 2.5
    assert counts.acceptance_length_sglang(samples) == 2.525


def test_a_cut_step_does_not_reject_what_lies_behind_the_cut():
    """Draft of 6, cut after 2: positions 3 to 6 are unknown there."""
    positions = counts.acceptance_by_position([sample(steps([6, 2], depth=6, cut=True))])
    assert [p.drafted for p in positions] == [2, 2, 1, 1, 1, 1]
    assert [p.reached for p in positions] == [2, 2, 1, 1, 1, 1]
    assert [p.conditional for p in positions] == [1.0] * 6
    assert counts.acceptance_rate([sample(steps([6, 2], depth=6, cut=True))]) == 1.0


def test_a_last_step_with_its_bonus_token_is_judged_in_full():
    position = counts.acceptance_by_position([sample(steps([6, 2], depth=6))])[2]
    assert (position.drafted, position.reached, position.accepted) == (2, 2, 1)


def test_a_cut_tree_counts_the_share_of_its_nodes_that_was_judged():
    assert counts.acceptance_rate([sample(steps([2], depth=4, cut=True, nodes=3))]) == 2 / 6


@pytest.mark.parametrize(
    ("accepted", "rate", "length"), [((0,) * 8, 0.0, 1.0), ((2,) * 8, 0.5, 3.0), ((4,) * 8, 1.0, 5.0)]
)
def test_oracles_of_known_acceptance(accepted, rate, length):
    samples = [sample(steps(accepted))]
    assert counts.acceptance_rate(samples) == rate
    assert counts.acceptance_length(samples) == length


def test_gaps_of_the_histogram_cost_nothing():
    """Known fault J14: chunks {1: 10, 3: 10} give conditional rates 0.5, 1.0."""
    positions = counts.acceptance_by_position([sample(steps([0] * 10 + [2] * 10, depth=2))])
    assert [p.conditional for p in positions] == [0.5, 1.0]
    assert [p.joint for p in positions] == [0.5, 0.5]


def test_ragged_drafts_have_their_own_denominators():
    positions = counts.acceptance_by_position([sample(steps([0, 1, 3, 0], depth=[0, 1, 3, 3]))])
    assert [(p.drafted, p.reached, p.accepted) for p in positions] == [(3, 3, 2), (2, 1, 1), (2, 1, 1)]


def test_unknown_is_null():
    only_prefill, undrafted = [sample(plain(0))], [sample(plain(5))]
    assert counts.acceptance_length(only_prefill) is None
    assert counts.acceptance_length_vllm(only_prefill) is None
    assert counts.acceptance_length_sglang(only_prefill) is None
    assert counts.target_passes_saved(only_prefill) is None
    assert counts.emitted_histogram(only_prefill) == {}
    assert counts.acceptance_rate(undrafted) is None
    assert counts.acceptance_by_position(undrafted) == ()
    assert counts.acceptance_length(undrafted) == 1.0
    assert counts.acceptance_length([]) is None


def test_repetition_counts_grams_within_one_output():
    assert counts.repetition_rate([[1, 2, 3, 4, 1, 2, 3, 4]]) == 1 / 5
    assert counts.repetition_rate([[7] * 8]) == 4 / 5
    assert counts.repetition_rate([[1, 2, 3, 4], [1, 2, 3, 4]]) == 0
    assert counts.repetition_rate([[1, 2, 3]]) is None


@st.composite
def generations(draw, fixed_depth: bool = False):
    depth = draw(st.integers(1, 8))
    depths = draw(st.lists(st.just(depth) if fixed_depth else st.integers(0, 8), min_size=1, max_size=30))
    accepted = [draw(st.integers(0, limit)) for limit in depths]
    cut = not fixed_depth and accepted[-1] > 0 and draw(st.booleans())
    return sample(steps(accepted, depth=depths, cut=cut, nodes=draw(st.integers(1, 3))))


@given(st.lists(generations(), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_identities(samples):
    length, rate = counts.acceptance_length(samples), counts.acceptance_rate(samples)
    steps_made = counts.verification_steps(samples)
    histogram = counts.emitted_histogram(samples)
    assert sum(histogram.values()) == steps_made
    assert sum(tokens * count for tokens, count in histogram.items()) == counts.emitted_tokens(samples)
    assert length >= 1
    assert counts.target_passes_saved(samples) == pytest.approx(1 - 1 / length)
    assert length <= counts.acceptance_length_vllm(samples)
    assert rate is None or 0 <= rate <= 1
    positions = counts.acceptance_by_position(samples)
    assert sum(p.accepted for p in positions) == sum(sum(s.steps.accepted) for s in samples)
    for before, after in pairwise(positions):
        assert after.reached <= before.accepted
        assert after.drafted <= before.drafted
    for position in positions:
        assert position.accepted <= position.reached <= position.drafted <= steps_made


@given(st.lists(generations(fixed_depth=True), min_size=1, max_size=1))
@settings(max_examples=60, deadline=None)
def test_conditional_rates_multiply_to_the_joint_rate(samples):
    product = 1.0
    for position in counts.acceptance_by_position(samples):
        product *= position.conditional or 0.0
        assert product == pytest.approx(position.joint)


def test_width_of_a_pass_counts_the_committed_token_nodes_and_probes():
    tree = StepCounts(emitted=(1,), accepted=(0,), drafted=(5,), depth=(2,), probes=(3,))
    assert list(counts.step_table([sample(tree)]).width) == [9]
    assert len(counts.step_table([]).width) == 0

"""Probabilities, choice and random numbers."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from specatlas.engine.sampling import (
    DRAFT_STREAM,
    VERIFICATION_STREAM,
    RowRandom,
    SamplingSettings,
    choose,
    probabilities,
)
from specatlas.errors import UnsupportedSampling

LARGEST_UNIFORM = 1 - 2**-24
"""The largest number that `torch.rand` gives in fp32."""

temperatures = st.sampled_from([0.0, 1e-6, 0.3, 1.0, 1.7])
sampling = st.builds(SamplingSettings, temperatures, st.none() | st.integers(1, 12), st.none() | st.floats(0.01, 1.0))
scores = arrays("float32", (3, 9), elements=st.floats(-30, 30, width=32)).map(torch.from_numpy)


@given(scores, sampling)
@settings(max_examples=60, deadline=None)
def test_probabilities_are_a_distribution(logits, chosen):
    p = probabilities(logits, chosen)
    assert p.dtype == torch.float32
    assert torch.allclose(p.sum(-1), torch.ones(3), atol=1e-5)
    assert (p >= 0).all()
    assert (p.gather(1, logits.argmax(-1, keepdim=True)) > 0).all(), "the likeliest token always stays"


@given(scores, st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_top_k_keeps_the_k_largest(logits, k):
    p = probabilities(logits, SamplingSettings(1.0, top_k=k))
    least = logits.sort(-1, descending=True).values[:, k - 1 : k]
    # Equal scores at the border all stay, as in transformers; what underflows is 0 either way.
    assert not p[logits < least].any()
    assert torch.equal(p > 0, (logits >= least) & (torch.where(logits < least, -math.inf, logits).softmax(-1) > 0))


@given(arrays("float32", 9, elements=st.floats(-4, 4, width=32), unique=True), st.floats(0.05, 0.99))
@settings(max_examples=60, deadline=None)
def test_top_p_keeps_the_smallest_sufficient_set(values, top_p):
    logits = torch.from_numpy(values)
    full = logits.softmax(-1).double()
    order = sorted(range(9), key=lambda token: -logits[token])
    masses = [float(full[order[: size + 1]].sum()) for size in range(9)]
    assume(all(abs(mass - top_p) > 1e-5 for mass in masses))
    size = 1 + next(place for place, mass in enumerate([*masses[:-1], 1.0]) if mass >= top_p)
    p = probabilities(logits, SamplingSettings(1.0, top_p=top_p))
    assert set(p.nonzero().flatten().tolist()) == set(order[:size])
    assert torch.allclose(p[order[:size]].double(), full[order[:size]] / full[order[:size]].sum(), atol=1e-5)


def test_top_p_that_is_met_exactly_keeps_no_more():
    assert probabilities(torch.zeros(2), SamplingSettings(1.0, top_p=0.5)).tolist() == [1.0, 0.0]
    assert probabilities(torch.zeros(4), SamplingSettings(1.0, top_p=0.75)).tolist() == pytest.approx([1 / 3] * 3 + [0])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.5])
@pytest.mark.parametrize(("top_k", "top_p"), [(None, None), (5, None), (None, 0.7), (20, 0.5), (3, 0.99), (1, None)])
def test_the_same_as_the_warpers_of_transformers(temperature, top_k, top_p):
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = 3 * torch.randn(20, 40, generator=torch.Generator().manual_seed(0))
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k is not None:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p is not None:
        warpers.append(TopPLogitsWarper(top_p))
    expected = warpers(torch.zeros(20, 1, dtype=torch.long), logits.clone()).softmax(-1)
    torch.testing.assert_close(probabilities(logits, SamplingSettings(temperature, top_k, top_p)), expected)


def test_the_first_of_equal_logits_wins():
    logits = torch.tensor([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    assert probabilities(logits, SamplingSettings()).argmax(-1).tolist() == [1, 0]
    assert probabilities(logits.bfloat16(), SamplingSettings()).argmax(-1).tolist() == [1, 0]


def test_temperature_zero_ignores_filters_and_precision_is_fp32():
    logits = torch.randn(5, 300, generator=torch.Generator().manual_seed(0)).bfloat16()
    one_hot = probabilities(logits, SamplingSettings(0.0, 3, 0.2))
    assert torch.equal(one_hot, torch.nn.functional.one_hot(logits.float().max(-1).indices, 300).float())
    assert torch.equal(probabilities(logits, SamplingSettings(1.0)), logits.float().softmax(-1))


@pytest.mark.parametrize("chosen", [SamplingSettings(), SamplingSettings(1.0), SamplingSettings(0.7, 3, 0.9)])
def test_nan_does_not_become_a_token(chosen):
    """The whole row is NaN, which the rules refuse when they read their decision back."""
    logits = torch.tensor([[0.0, float("nan"), 1.0], [0.0, 1.0, 2.0]])
    p = probabilities(logits, chosen)
    assert p[0].isnan().all()
    assert not p[1].isnan().any()


@pytest.mark.parametrize("wrong", [(-1.0,), (1.0, 0), (1.0, -3), (1.0, None, 0.0), (1.0, None, 1.2)])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UnsupportedSampling):
        SamplingSettings(*wrong)


weights = arrays("float32", 7, elements=st.sampled_from([0.0, 0.0, 1e-30, 1e-7, 0.1, 0.5, 3.0]))


@given(weights, st.floats(0, LARGEST_UNIFORM, width=32))
@settings(max_examples=200, deadline=None)
def test_choose_never_takes_weight_zero(values, uniform):
    assume(values.sum() > 0)
    for u in (0.0, uniform, LARGEST_UNIFORM):
        chosen = int(choose(torch.from_numpy(values)[None], torch.tensor([u], dtype=torch.float32)))
        assert values[chosen] > 0


def test_choose_at_the_edges_of_the_cumulative_weights():
    p = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    for u, expected in ((0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4), (LARGEST_UNIFORM, 4)):
        assert int(choose(p[None], torch.tensor([u]))) == expected
    assert int(choose(4 * p[None], torch.tensor([0.25]))) == 3, "weights need not sum to 1"


def test_choose_stays_inside_the_vocabulary_with_weights_of_nan():
    """Such as the q of a broken draft model; an index beyond the end would abort a GPU."""
    weights = torch.tensor([[float("nan")] * 3, [0.2, float("nan"), 0.1]])
    for u in (0.0, 0.5, LARGEST_UNIFORM):
        assert all(0 <= token < 3 for token in choose(weights, torch.tensor([u, u])).tolist())


def test_choose_inverts_the_distribution():
    """A fine grid of uniforms meets each token as often as it is likely."""
    p = torch.tensor([0.1, 0.0, 0.35, 0.05, 0.5])
    grid = (torch.arange(10_000) + 0.5) / 10_000
    counts = torch.bincount(choose(p.expand(10_000, -1), grid), minlength=5)
    assert (counts / 10_000 - p).abs().max() < 2e-4


def test_random_numbers_depend_on_seed_position_and_stream_alone():
    device = torch.device("cpu")
    alone = RowRandom([7], device).uniforms([3], 40, DRAFT_STREAM)
    among = RowRandom([1, 7, 9], device)
    among.uniforms([0, 1, 2], 5, VERIFICATION_STREAM)
    assert torch.equal(among.uniforms([8, 3, 0], 40, DRAFT_STREAM)[1:2], alone)
    for count in (1, 2, 15, 16, 17, 39):
        assert torch.equal(RowRandom([7], device).uniforms([3], count, DRAFT_STREAM), alone[:, :count])
    assert not torch.equal(RowRandom([7], device).uniforms([4], 40, DRAFT_STREAM), alone)
    assert not torch.equal(RowRandom([8], device).uniforms([3], 40, DRAFT_STREAM), alone)
    assert not torch.equal(RowRandom([7], device).uniforms([3], 40, VERIFICATION_STREAM), alone)


def test_random_numbers_of_near_seeds_positions_and_streams_are_unrelated():
    """Uniform, and uncorrelated between neighbours in any direction."""
    device, count = torch.device("cpu"), 2000
    by_seed = RowRandom(range(count), device).uniforms([0] * count, 2, DRAFT_STREAM)
    by_position = RowRandom([0] * count, device).uniforms(range(count), 2, DRAFT_STREAM)
    other = RowRandom([0] * count, device).uniforms(range(count), 2, VERIFICATION_STREAM)
    assert float(by_seed.min()) >= 0
    assert float(by_seed.max()) < 1
    for sample in (by_seed, by_position):
        assert abs(float(sample.mean()) - 0.5) < 0.02
        columns = [sample[:-1, 0], sample[1:, 0], sample[:-1, 1]]
        assert (torch.corrcoef(torch.stack(columns)) - torch.eye(3)).abs().max() < 0.1
    assert torch.corrcoef(torch.stack([by_position[:, 0], other[:, 0]]))[0, 1].abs() < 0.1
    assert len(by_seed[:, 0].unique()) > count - 3

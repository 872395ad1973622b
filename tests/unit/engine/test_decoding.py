"""The decoding loop against oracles of known acceptance; fp32, so equality is exact."""

import pytest
import torch

from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.verification import make_rule
from specatlas.errors import ContextOverflow
from tests.support.drafters import Scripted, ScriptedTree
from tests.support.models import tiny_transformer

VOCABULARY = 61
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 9, 8, 7, 9], [60, 0]]
GREEDY = SamplingSettings()


@pytest.fixture(scope="module")
def target():
    return tiny_transformer(VOCABULARY, seed=3)


def decode(target, drafter, prompts, limit=24, eos=frozenset(), rule="greedy", settings=GREEDY):
    decoder = Decoder(target, drafter, make_rule(rule), settings, check=True)
    return decoder.generate(prompts, StopConditions(limit, eos), [11 + row for row in range(len(prompts))]).generations


@pytest.fixture(scope="module")
def plain(target):
    return [decode(target, PlainDrafter(), [prompt], 60)[0].ids for prompt in PROMPTS]


def test_plain_text_is_varied(plain):
    assert all(len(set(ids)) > 5 for ids in plain)


def wrong(token, index):
    return (token + 1) % VOCABULARY


def half_right(token, index):
    return token if index % 2 else (token + 1) % VOCABULARY


@pytest.mark.parametrize("batch", [[0], [1], [2], [3], [0, 1, 2, 3]])
@pytest.mark.parametrize("length", [0, 1, 2, 5, 23, 40])
@pytest.mark.parametrize("alter", [lambda token, index: token, wrong, half_right], ids=["right", "wrong", "half"])
def test_output_never_depends_on_the_draft(target, plain, batch, length, alter):
    prompts = [PROMPTS[row] for row in batch]
    truth = [plain[row] for row in batch]
    for ids, generation in zip(truth, decode(target, Scripted(truth, length, alter), prompts), strict=True):
        assert generation.ids == ids[:24]
        assert sum(generation.emitted) == 23
        if alter is wrong:
            assert set(generation.accepted) <= {0}


@pytest.mark.parametrize("batch", [[1], [0, 1, 2, 3]])
@pytest.mark.parametrize("depth", [1, 3, 6])
def test_trees(target, plain, batch, depth):
    truth = [plain[row] for row in batch]
    generations = decode(target, ScriptedTree(truth, depth, VOCABULARY), [PROMPTS[row] for row in batch])
    for ids, generation in zip(truth, generations, strict=True):
        assert generation.ids == ids[:24]
        assert generation.emitted[0] == depth + 1


def test_known_acceptance(target, plain):
    for length, expected in ((1, 2.0), (3, 4.0), (22, 23.0)):
        generation = decode(
            target, Scripted([plain[1]], length), [PROMPTS[1]], limit=1 + 24 // (length + 1) * (length + 1)
        )[0]
        assert sum(generation.emitted) / len(generation.emitted) == pytest.approx(expected)
    generation = decode(target, Scripted([plain[1]], 4, wrong), [PROMPTS[1]])[0]
    assert generation.emitted == [1] * 23
    every_third = lambda token, index: token if index % 3 else (token + 1) % VOCABULARY  # noqa: E731
    generation = decode(target, Scripted([plain[1]], 1, every_third), [PROMPTS[1]], limit=26)[0]
    assert sum(generation.accepted) / sum(generation.drafted) == 0.5


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_limits_are_exact(target, plain, limit, length):
    generation = decode(target, Scripted([plain[1]], length), [PROMPTS[1]], limit)[0]
    assert generation.ids == plain[1][:limit]
    assert generation.finish == "length"
    assert max(generation.depth, default=0) <= max(limit - 2, 0)


def test_eos_at_every_position(target, plain):
    for place in range(20):
        eos = plain[1][place]
        first = plain[1].index(eos)
        for drafter in (PlainDrafter(), Scripted([plain[1]], 5), ScriptedTree([plain[1]], 4, VOCABULARY)):
            generation = decode(target, drafter, [PROMPTS[1]], eos=frozenset({eos, 10_000}))[0]
            assert generation.ids == plain[1][: first + 1]
            assert generation.finish == "eos"
            assert sum(generation.emitted) == first


def test_stop_strings_across_block_borders(target, plain):
    text = lambda ids: "".join(chr(97 + token) for token in ids)  # noqa: E731
    for start in range(1, 12):
        stop = StopConditions(24, frozenset(), (text(plain[1][start : start + 3]),), text)
        expected = text(plain[1]).index(stop.stop_strings[0]) + 3
        for length in (0, 1, 2, 4, 7):
            decoder = Decoder(target, Scripted([plain[1]], length), make_rule("greedy"), GREEDY)
            generation = decoder.generate([PROMPTS[1]], stop, [0]).generations[0]
            assert generation.ids == plain[1][:expected]
            assert generation.finish == "stop_string"


def test_cache_holds_exactly_what_is_committed(target, plain):
    class Watcher(Scripted):
        def observe(self, context, step):
            assert context.cache.lengths == [len(row) - 1 for row in context.tokens]

    decode(target, Watcher([plain[1]], 4, half_right), [PROMPTS[1]])


def test_context_overflow_is_refused(target):
    with pytest.raises(ContextOverflow, match="256"):
        decode(target, PlainDrafter(), [[1] * 250], limit=7)
    assert len(decode(target, PlainDrafter(), [[1] * 250], limit=6)[0].ids) == 6


@pytest.mark.parametrize("rule", ["speculative_sampling", "siblings_without_replacement", "typical_acceptance"])
def test_sampling_rules_at_temperature_zero_are_greedy(target, plain, rule):
    for alter in (wrong, half_right):
        generation = decode(target, Scripted([plain[1]], 4, alter), [PROMPTS[1]], rule=rule)[0]
        assert generation.ids == plain[1][:24]


def test_sampling_does_not_depend_on_the_batch(target):
    settings = SamplingSettings(temperature=1.0)
    together = decode(target, PlainDrafter(), PROMPTS, rule="speculative_sampling", settings=settings)
    for row, prompt in enumerate(PROMPTS):
        decoder = Decoder(target, PlainDrafter(), make_rule("speculative_sampling"), settings)
        alone = decoder.generate([prompt], StopConditions(24), [11 + row]).generations[0]
        assert alone.ids == together[row].ids


def test_nan_is_refused(target):
    from specatlas.errors import NumericalError

    broken = tiny_transformer(VOCABULARY, seed=3)
    with torch.no_grad():
        broken.norm.weight[0] = float("nan")
    with pytest.raises(NumericalError, match="NaN"):
        decode(broken, PlainDrafter(), [[1, 2]])

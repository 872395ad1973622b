"""Probes ride along: scored as if they were text of their own, seen by no node, never accepted."""

import pytest
import torch

from specatlas.engine.decoding import Decoder
from specatlas.engine.draft import Draft, Probes
from specatlas.engine.drafter import Drafter, PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import NORMED
from specatlas.engine.verification import make_rule
from tests.support.drafters import ScriptedTree
from tests.support.models import tiny_transformer

VOCABULARY = 61
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 9, 8, 7, 9]]
GUESSES = (11, 12, 13)


class Prober(Drafter):
    """Beside any draft three probes: a text of two guesses after the root, and a third guess after the first node.

    Args:
        inner: Makes the draft.
        embeddings: Of the probes, instead of their tokens; or None.
    """

    taps = (NORMED,)

    def __init__(self, inner, embeddings=None):
        super().__init__()
        self.inner, self.embeddings, self.steps = inner, embeddings, []

    def propose(self, context):
        draft = self.inner.propose(context)
        nodes = draft.nodes
        visible = torch.zeros(context.batch, 3, 1 + nodes + 3, dtype=torch.bool)
        visible[:, :, 0] = True
        visible[:, 0, 1 + nodes] = True
        visible[:, 1, [1 + nodes, 2 + nodes]] = True
        visible[:, 2, 3 + nodes] = True
        offsets = torch.tensor([[1, 2, 1]])
        if nodes:
            visible[:, 2, 1] = True
            offsets = torch.tensor([[1, 2, 2]])
        tokens = torch.tensor([GUESSES]).expand(context.batch, -1)
        if self.embeddings is not None:
            tokens = torch.zeros_like(tokens)
        probes = Probes(tokens, offsets, visible, self.embeddings)
        return Draft(draft.tokens, draft.counts, draft.parents, draft.q, probes=probes)

    def observe(self, context, step):
        texts = [row[: len(row) - len(new)] for row, new in zip(context.tokens, step.emitted, strict=True)]
        self.steps.append((texts, list(context.active), step))


@pytest.fixture(scope="module")
def target():
    return tiny_transformer(VOCABULARY, seed=3)


def decode(target, drafter, limit=16):
    decoder = Decoder(target, drafter, make_rule("greedy"), SamplingSettings(), check=True)
    return decoder.generate(PROMPTS, StopConditions(limit), [0] * 3).generations


@pytest.fixture(scope="module")
def plain(target):
    return [row.ids for row in decode(target, PlainDrafter())]


@torch.inference_mode()
def plain_pass(target, tokens):
    """Logits after the last token, by a pass of its own."""
    return target.logits(target(torch.tensor([tokens]), target.new_cache(1, 64)).hidden)[0, -1]


def drafters(plain):
    return {"empty": PlainDrafter(), "tree": ScriptedTree(plain, 2, VOCABULARY)}


@pytest.mark.parametrize("inner", ["empty", "tree"])
@pytest.mark.parametrize("embedded", [False, True], ids=["tokens", "embeddings"])
def test_probe_logits_equal_those_of_a_separate_pass(target, plain, inner, embedded):
    embeddings = target.embed(torch.tensor([GUESSES])) if embedded else None
    drafter = Prober(drafters(plain)[inner], embeddings)
    assert [row.ids for row in decode(target, drafter)] == plain
    assert len(drafter.steps) > 3
    first, second, third = GUESSES
    for texts, active, step in drafter.steps:
        assert step.probe_logits.shape == (3, 3, VOCABULARY)
        assert step.logits.shape[1] == 1 + step.draft.nodes
        for row, text in enumerate(texts):
            if not active[row]:
                continue
            under = [int(step.draft.tokens[row, 0])] if step.draft.nodes else []
            if step.draft.nodes and not step.draft.counts[row]:
                continue
            for probe, path in enumerate(([first], [first, second], [*under, third])):
                expected = plain_pass(target, [*text, *path])
                torch.testing.assert_close(step.probe_logits[row, probe], expected, atol=1e-4, rtol=1e-4)


def test_nodes_never_see_probes(target, plain):
    """With wild probes the logits of root and nodes are what they are without any."""
    wild = 50 * torch.randn(1, 3, target.architecture.hidden, generator=torch.Generator().manual_seed(0))
    with_probes = Prober(ScriptedTree(plain, 2, VOCABULARY), wild)
    without = Prober(ScriptedTree(plain, 2, VOCABULARY))
    assert [row.ids for row in decode(target, with_probes)] == [row.ids for row in decode(target, without)] == plain
    for (_, _, one), (_, _, other) in zip(with_probes.steps, without.steps, strict=True):
        torch.testing.assert_close(one.logits, other.logits, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(one.probe_logits, other.probe_logits)


def test_probes_are_counted_apart_and_tapped_last(target, plain):
    drafter = Prober(ScriptedTree(plain, 2, VOCABULARY))
    for row in decode(target, drafter):
        assert set(row.probes) == {3}
        assert all(accepted <= depth <= drafted for accepted, depth, drafted in
                   zip(row.accepted, row.depth, row.drafted, strict=True))  # fmt: skip
    for _, _, step in drafter.steps:
        assert step.taps[NORMED].shape[1] == 1 + step.draft.nodes + 3
        expected = target.head(step.taps[NORMED][:, -3:])
        torch.testing.assert_close(step.probe_logits, expected, atol=1e-4, rtol=1e-4)

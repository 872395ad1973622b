"""Section A: greedy output differs from plain decoding."""

import pytest
import torch

from specatlas.engine import decoding
from specatlas.engine.drafter import PlainDrafter
from tests.faults.world import PROMPTS, VOCABULARY, decode, plain_answers, target
from tests.support.drafters import Scripted, ScriptedTree
from tests.support.models import tiny_transformer


@pytest.mark.fault("A03")
@pytest.mark.parametrize("batch", [[0], [0, 1, 2, 3]])
def test_exact_ties_are_broken_alike_with_and_without_drafts(batch):
    """Every token has a twin with the same row of the head, so every choice is a tie; the first index wins."""
    model = tiny_transformer(VOCABULARY, seed=3)
    with torch.no_grad():
        model.head.weight[1::2] = model.head.weight[0:-1:2]
    prompts = [PROMPTS[row] for row in batch]
    plain = [row.ids for row in decode(PlainDrafter(), prompts, model=model)]
    assert all(token % 2 == 0 for ids in plain for token in ids)
    twin = lambda token, index: token + 1 if token < VOCABULARY - 1 else token  # noqa: E731
    for drafter in (Scripted(plain, 4), Scripted(plain, 4, twin), ScriptedTree(plain, 3, VOCABULARY)):
        assert [row.ids for row in decode(drafter, prompts, model=model)] == plain


@pytest.mark.fault("A02")
def test_plain_decoding_repeats_itself():
    """Two controls without a drafter, before any method is blamed; in a batch and alone."""
    again = [row.ids for row in decode(PlainDrafter(), limit=48)]
    alone = [decode(PlainDrafter(), [prompt], limit=48)[0].ids for prompt in PROMPTS]
    assert again == alone == plain_answers()


@pytest.mark.fault("A09", "H02")
def test_rows_without_a_draft_beside_rows_with_one():
    """A row that drafts nothing stands before rows that do; each is read at its own place."""
    truth = plain_answers()
    for silent in range(4):
        known = [[] if row == silent else ids for row, ids in enumerate(truth)]
        rows = decode(Scripted(known, 4))
        assert [row.ids for row in rows] == [ids[:24] for ids in truth]
        assert [bool(sum(row.accepted)) for row in rows] == [row != silent for row in range(4)]


@pytest.mark.fault("A11", "A12")
def test_how_the_prompt_is_cut_for_the_prefill_changes_nothing(monkeypatch):
    """Both arms prefill alike; in fp32 even another chunk gives the same answer."""
    for chunk in (1, 2, 5, 7):
        monkeypatch.setattr(decoding, "PREFILL_CHUNK", chunk)
        assert [row.ids for row in decode(PlainDrafter())] == [ids[:24] for ids in plain_answers()]
        assert [row.ids for row in decode(Scripted(plain_answers(), 4))] == [ids[:24] for ids in plain_answers()]


@pytest.mark.fault("A16", "A08")
@pytest.mark.parametrize("length", range(10))
def test_output_is_invariant_in_the_draft_length(length):
    """In fp32 the width of the pass is no excuse."""
    third = lambda token, index: token if index % 3 else (token + 7) % VOCABULARY  # noqa: E731
    rows = decode(Scripted(plain_answers(), length, third), limit=40)
    assert [row.ids for row in rows] == [ids[:40] for ids in plain_answers()]


@pytest.mark.fault("A08", "A06")
def test_logits_of_a_wide_pass_equal_those_of_narrow_ones():
    """The numeric part alone, without any drafter: widths 1 … 9 over the same text agree to rounding in fp32."""
    model, text = target(), [*PROMPTS[1], *plain_answers()[1][:18]]

    @torch.inference_mode()
    def logits(width):
        cache, parts = model.new_cache(1, 64), []
        for start in range(0, len(text), width):
            part = torch.tensor([text[start : start + width]])
            parts.append(model.logits(model(part, cache).hidden))
            cache.advance([part.shape[1]])
        return torch.cat(parts, 1)

    narrow = logits(1)
    for width in range(2, 10):
        torch.testing.assert_close(logits(width), narrow, atol=1e-4, rtol=1e-4)

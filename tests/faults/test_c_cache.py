"""Section C: cache, rollback, state across calls."""

import pytest
import torch

from specatlas.drafting.draft_model import DraftModel
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.stopping import StopConditions
from specatlas.errors import ContextOverflow
from specatlas.measure.conformance.models import BASE, random_transformer
from specatlas.measure.conformance.subject import Watched
from tests.faults.world import GREEDY, PROMPTS, SAMPLED, OwnDraft, decode, method, plain_answers, target
from tests.support.models import tiny_transformer


@pytest.mark.fault("C01", "C17", "C19")
@pytest.mark.parametrize("batch", [[1], [0, 1, 2, 3]], ids=["alone", "ragged batch"])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 9])
def test_the_target_as_its_own_drafter_is_accepted_to_the_end(length, batch):
    """Over a long answer, for every K: a draft cache that is off by one shows as falling acceptance."""
    prompts = [PROMPTS[row] for row in batch]
    rows = decode(OwnDraft(target(), [length]), prompts, limit=48)
    for place, row in zip(batch, rows, strict=True):
        assert row.ids == plain_answers()[place]
        assert row.accepted == row.drafted
        assert set(row.drafted[:-1]) <= {length}


@pytest.mark.fault("C01", "C19")
@pytest.mark.parametrize("length", [1, 4])
def test_so_it_is_when_sampling(length):
    """q equals p, so every token stands, whatever the temperature."""
    rows = decode(OwnDraft(target(), [length]), rule="speculative_sampling", settings=SAMPLED)
    assert sum(sum(row.accepted) for row in rows) >= 0.99 * sum(sum(row.drafted) for row in rows) > 0


@pytest.mark.fault("C16")
@pytest.mark.parametrize("lengths", [[0, 4], [3, 0, 0, 2], [0, 0, 0, 9]])
def test_acceptance_recovers_after_steps_without_a_draft(lengths):
    """The draft model misses no token while K is 0."""
    for rows in (decode(OwnDraft(target(), lengths), limit=48), decode(OwnDraft(target(), lengths), limit=48)):
        for row, ids in zip(rows, plain_answers(), strict=True):
            assert row.ids == ids
            assert row.accepted == row.drafted
            assert 0 in row.drafted


@pytest.mark.fault("C10", "C17", "C11")
def test_the_draft_cache_holds_what_was_committed_after_every_rejection():
    """A draft model that is right now and then: after each step its cache equals a fresh prefill of the text."""
    model, draft = target(7), tiny_transformer(7, layers=1, seed=8)
    accepted = []

    class Checked(OwnDraft):
        def observe(self, context, step):
            super().observe(context, step)
            accepted.extend(map(len, step.paths))
            cache = self.inner._cache
            for row, (tokens, length) in enumerate(zip(context.tokens, cache.lengths, strict=True)):
                if not context.active[row]:
                    continue
                assert length <= len(tokens) - 1
                fresh = draft.new_cache(1, 64)
                draft(torch.tensor([tokens[:length]]), fresh)
                by_row = cache.keys[0].unflatten(0, (len(context.tokens), -1))
                torch.testing.assert_close(by_row[row, :, :length], fresh.keys[0][:, :length], atol=1e-4, rtol=1e-4)

    prompts = [[token % 7 for token in prompt] for prompt in PROMPTS]
    rows = decode(Checked(model, [4], draft), prompts, limit=40, model=model)
    assert [row.ids for row in rows] == [row.ids for row in decode(PlainDrafter(), prompts, limit=40, model=model)]
    assert {0, 1} <= set(accepted), "both branches must have been taken"
    assert any(count > 1 for count in accepted)


@pytest.mark.fault("C18", "C16", "C19", "C10")
@pytest.mark.parametrize("slug", ["speculative_sampling", "medusa", "eagle", "eagle2", "prompt_lookup"])
def test_a_warm_drafter_proposes_what_a_cold_one_would(slug):
    """Its state after many steps equals the state after a prefill of the same text (output alone cannot show this)."""
    model = random_transformer(BASE, 3)
    text, limit = [4, 0, 3, 4, 0, 3, 4, 0], 16
    warm = run(slug, model, text, limit)
    answer, drafts = warm
    assert len(drafts) > 3
    for done, tokens in drafts.items():
        _, cold = run(slug, model, [*text, *answer[: done - 1]], limit - done + 1)
        assert cold[1] == tokens, f"after {done} tokens"


def run(slug, model, prompt, limit):
    """The answer, and the draft of every step by the answer's length before it."""
    drafter, rule = method(slug, model)
    watched = Watched(drafter)
    decoder = Decoder(model, watched, rule, GREEDY, check=True)
    answer = decoder.generate([prompt], StopConditions(limit), [0]).generations[0].ids
    drafts = {
        lengths[0]: (draft.tokens[0, : draft.counts[0]].tolist(), draft.parent_lists()[0])
        for lengths, draft in watched.proposed
    }
    return answer, drafts


@pytest.mark.fault("C05", "C06", "C07")
def test_beyond_a_sliding_window_is_refused_not_approximated():
    """A windowed model is run within its window, where its cache can be rolled back; beyond it there is a refusal."""
    from specatlas.engine.architecture import parse_architecture

    config = {
        "model_type": "mistral", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "sliding_window": 32,
    }  # fmt: skip
    model = random_transformer(parse_architecture(config, "here"), 3)
    assert len(decode(PlainDrafter(), [[1, 2, 3, 4]], limit=28, model=model)[0].ids) == 28
    with pytest.raises(ContextOverflow, match="context of 32"):
        decode(PlainDrafter(), [[1, 2, 3, 4]], limit=29, model=model)


@pytest.mark.fault("C03")
def test_near_the_limit_nothing_is_trimmed_that_was_not_kept():
    """Every limit, every draft length: the rollback of target and draft cache stays in range."""
    for limit in range(1, 9):
        for length in (1, 4, 9):
            rows = decode(OwnDraft(target(), [length]), limit=limit)
            assert [row.ids for row in rows] == [ids[:limit] for ids in plain_answers()]


@pytest.mark.fault("C08", "C12")
def test_a_cache_that_is_thrown_away_shows_as_draft_passes():
    """A drafter that prefills again after every reject has the right text; its passes tell."""

    class Forgetful(OwnDraft):
        def propose(self, context):
            fresh = DraftModel(self.inner.model, self.inner.head, 61)
            fresh.start(context)
            self.inner = fresh
            draft = super().propose(context)
            self.passes += self.inner.passes
            return draft

    class Keeping(OwnDraft):
        def propose(self, context):
            draft = super().propose(context)
            self.passes = self.inner.passes
            return draft

    def passes(drafter):
        decoder = Decoder(target(), drafter, method("prompt_lookup", target())[1], GREEDY)
        return decoder.generate([PROMPTS[1]], StopConditions(24), [0]).draft_passes

    assert passes(Forgetful(target(), [2])) > passes(Keeping(target(), [2]))

"""Section D: the sampling distribution. The laws themselves are in tests/unit/engine/test_verification.py."""

import pytest
import torch

from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Drafter, PlainDrafter
from specatlas.engine.sampling import DRAFT_STREAM, SamplingSettings, choose, probabilities
from specatlas.measure.conformance.models import BASE, random_transformer
from specatlas.measure.conformance.subject import Watched
from tests.faults.world import CATALOG, PROMPTS, OwnDraft, decode, method, plain_answers, target
from tests.support.drafters import Scripted
from tests.support.models import tiny_transformer

SAMPLERS = [one.card.slug for one in CATALOG.runnable() if one.card.lossless.sampling == "distribution"]


@pytest.mark.fault("D05", "D06", "D03")
@pytest.mark.parametrize("slug", ["speculative_sampling", "draft_and_verify"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(
    "settings", [SamplingSettings(0.5), SamplingSettings(1.5, top_k=4), SamplingSettings(1.0, 9, 0.8)]
)
def test_tokens_are_drawn_from_the_very_q_that_is_tested(slug, dtype, settings):
    """Drawing again from the q that is handed over, with the same numbers, gives the same tokens; q is fp32."""
    model = random_transformer(BASE, 3)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    drafter, _ = method(slug, model, settings)

    class Redrawn(Watched):
        nodes = 0

        def propose(self, context):
            draft = super().propose(context)
            if draft.nodes:
                assert draft.q.dtype == torch.float32
                uniforms = context.uniforms(draft.nodes, DRAFT_STREAM)
                again = choose(draft.q[:, : draft.nodes], uniforms)
                for row, count in enumerate(draft.counts):
                    assert torch.equal(again[row, :count], draft.tokens[row, :count])
                    self.nodes += count
                # In bf16 more tokens may tie for the last place, and all stay.
                if settings.top_k is not None and dtype == torch.float32:
                    assert int((draft.q > 0).sum(-1).max()) <= settings.top_k
            return draft

    watched = Redrawn(drafter)
    decode(watched, model=model, rule="speculative_sampling", settings=settings)
    assert watched.nodes > 20


@pytest.mark.fault("D06")
@pytest.mark.parametrize("settings", [SamplingSettings(1.0, top_k=2), SamplingSettings(1.3, top_p=0.5)])
@pytest.mark.parametrize("rule", ["speculative_sampling", "siblings_without_replacement"])
def test_what_the_target_filters_out_is_never_emitted_whatever_is_drafted(rule, settings):
    """Drafts come from the unfiltered vocabulary; every emitted token lies in the target's filtered one."""
    model = target()
    for drafter in (method("random_draft", model, settings)[0], Scripted(plain_answers(), 3)):
        for prompt, row in zip(PROMPTS, decode(drafter, rule=rule, settings=settings), strict=True):
            with torch.inference_mode():
                text = torch.tensor([[*prompt, *row.ids]])
                logits = model.logits(model(text, model.new_cache(1, 64)).hidden)[0, len(prompt) - 1 : -1]
            p = probabilities(logits, settings)
            assert all(p[place, token] > 0 for place, token in enumerate(row.ids))


@pytest.mark.fault("D11")
def test_seeds_of_a_mixed_batch():
    """Same seed, same answer, whoever else is in the batch; other seeds give other answers."""
    options = {"rule": "speculative_sampling", "settings": SamplingSettings(1.0)}
    prompts = [PROMPTS[1]] * 4
    rows = [row.ids for row in decode(PlainDrafter(), prompts, seeds=[7, 8, 7, 0], **options)]
    assert rows[0] == rows[2]
    assert len({tuple(ids) for ids in rows}) == 3
    drafter = method("random_draft", target(), SamplingSettings(1.0))[0]
    again = [row.ids for row in decode(drafter, prompts, seeds=[0, 7, 9, 7], **options)]
    assert again[1] == again[3]
    assert again[0] != again[2]


@pytest.mark.fault("D15", "D09", "D14")
@pytest.mark.parametrize("slug", SAMPLERS)
def test_every_temperature_runs(slug):
    """0, almost 0, 1 and hot, with every filter; almost 0 is 0."""
    model = random_transformer(BASE, 3)
    rows = {}
    for temperature in (0.0, 1e-6, 1.0, 5.0):
        for filters in ({}, {"top_k": 1}, {"top_k": 5, "top_p": 0.9}):
            settings = SamplingSettings(temperature, **filters)
            drafter, rule = method(slug, model, settings)
            name = "greedy" if temperature == 0 else CATALOG[slug].card.verification.sampling
            assert type(rule).__name__.lower() == name.replace("_", "")
            got = decode(drafter, limit=8, model=model, rule=name, settings=settings)
            rows[temperature, tuple(filters)] = [row.ids for row in got]
    greedy = rows[0.0, ()]
    assert all(rows[0.0, key] == rows[1e-6, key] == greedy for key in ((), ("top_k",), ("top_k", "top_p")))
    assert rows[1.0, ("top_k",)] == rows[5.0, ("top_k",)] == greedy, "of one token there is no choice"
    assert rows[5.0, ()] != greedy


@pytest.mark.fault("D16", "F03")
@pytest.mark.parametrize("rule", ["greedy", "speculative_sampling", "siblings_without_replacement"])
def test_nan_in_the_draft_model_never_reaches_the_answer(rule):
    """It costs acceptance only: the answer is plain decoding's, sampled with the same numbers."""
    broken = tiny_transformer(61, layers=1, seed=8)
    with torch.no_grad():
        broken.norm.weight[0] = float("nan")
    settings = SamplingSettings(0.0 if rule == "greedy" else 1.0)
    rows = decode(OwnDraft(target(), [3], broken), rule=rule, settings=settings)
    plain = decode(PlainDrafter(), rule=rule, settings=settings)
    assert [row.ids for row in rows] == [row.ids for row in plain]
    assert sum(sum(row.drafted) for row in rows) > 0


@pytest.mark.fault("D07", "D01", "D13")
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_deterministic_drafts_with_a_softmax_q_would_be_found(shape):
    """The law of min(1, p/q) on an argmax draft is not p: what these faults did is visible to the exact laws."""
    from specatlas.engine.verification import make_rule
    from tests.unit.engine.laws import law

    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.6, 0.3, 0.1])
    rule = make_rule("speculative_sampling" if shape == "chain" else "siblings_without_replacement")
    tokens, rows = torch.tensor([[0]]), torch.stack([p, p])

    def first(draft):
        found = law(rule, draft, rows)
        return sum(mass for emitted, mass in found.items() if emitted[0] == 0)

    assert first(Draft(tokens, [1])) == pytest.approx(0.5, abs=0.01)
    assert first(Draft(tokens, [1], q=q.view(1, 1, 3))) == pytest.approx(0.5 / 0.6, abs=0.01)


@pytest.mark.fault("D04")
def test_incoherent_drafts_cost_acceptance_not_correctness():
    """Sampled rows differ from greedy ones in acceptance, so they stand on boards of their own."""

    class Blind(Drafter):
        """Draws each position from the target's prediction for the first one."""

        def propose(self, context):
            tokens = context.uniforms(3, DRAFT_STREAM).mul(61).long()
            return Draft(tokens, [3] * context.batch)

    assert [row.ids for row in decode(Blind())] == [ids[:24] for ids in plain_answers()]

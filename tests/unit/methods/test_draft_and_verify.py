"""Draft & Verify: never changes a token, accepts everything where nothing is skipped, and its search can be killed."""

import json
from pathlib import Path

import pytest
import torch

from specatlas.catalog.discovery import load_catalog
from specatlas.config import Budget
from specatlas.drafting.methods import import_part, prepare, untrained_artifacts
from specatlas.drafting.setup import Artifact
from specatlas.drafting.target_head import head_rows, shared_head
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import ALL_LAYERS, LayerPlan
from specatlas.engine.verification import make_rule
from specatlas.errors import ConfigError, MissingArtifact
from specatlas.training.job import Job
from tests.support.models import tiny_transformer

CATALOG = load_catalog(Path(__file__).parents[3] / "methods")
METHOD = CATALOG["draft_and_verify"]
VOCABULARY = 61
PROMPTS = [[5], [1, 2, 3, 4, 5, 6, 7], [9, 8, 7, 9, 8, 7, 9], [60, 0]]
GREEDY = SamplingSettings()


@pytest.fixture(scope="module")
def target():
    return tiny_transformer(VOCABULARY, layers=4, seed=3, scale=0.25)


@pytest.fixture(scope="module")
def plain(target):
    return [decode(target, (PlainDrafter(), make_rule("greedy")), [prompt], 60)[0].ids for prompt in PROMPTS]


def artifact(attention=(), feed_forward=(), layers=4):
    metadata = {"layers": layers, "skipped_attention": list(attention), "skipped_feed_forward": list(feed_forward)}
    return {"draft_and_verify": Artifact({"ranked_ids": torch.arange(VOCABULARY, dtype=torch.int32)}, metadata)}


def arm(target, artifacts, settings=GREEDY, **overrides):
    return prepare(METHOD, target, settings, artifacts=artifacts, overrides=overrides)[:2]


def decode(target, arm, prompts, limit=40, settings=GREEDY, seed=11):
    decoder = Decoder(target, *arm, settings, check=True)
    return decoder.generate(prompts, StopConditions(limit), [seed + row for row in range(len(prompts))]).generations


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"draft_length": 0},
        {"draft_length": 1},
        {"draft_length": 16, "threshold": 0.0},
        {"threshold": 1.0},
        {"draft_vocabulary": 1},
        {"draft_vocabulary": 20, "threshold": 0.1},
    ],
    ids=str,
)
def test_greedy_text_is_the_targets(target, plain, seed, overrides):
    drafter = arm(target, untrained_artifacts(CATALOG, METHOD, target, seed), **overrides)
    for rows in ([1], [0, 1, 2, 3]):
        generations = decode(target, drafter, [PROMPTS[row] for row in rows])
        assert [generation.ids for generation in generations] == [plain[row][:40] for row in rows]


def test_batch_changes_nothing_in_a_row(target):
    drafter = arm(target, artifact([1], [2]), threshold=0.3)
    together = decode(target, drafter, PROMPTS)
    assert len({tuple(generation.drafted) for generation in together}) > 1
    for row, prompt in enumerate(PROMPTS):
        alone = decode(target, drafter, [prompt], seed=11 + row)[0]
        assert (alone.ids, alone.drafted, alone.accepted) == (
            together[row].ids,
            together[row].drafted,
            together[row].accepted,
        )


@pytest.mark.parametrize("settings", [GREEDY, SamplingSettings(temperature=1.0), SamplingSettings(0.7, top_k=9)])
def test_nothing_skipped_accepts_everything(target, settings):
    drafter = arm(target, artifact(), settings, draft_length=5, threshold=0.0, sampling_threshold=0.0)
    for generation in decode(target, drafter, PROMPTS, settings=settings):
        assert generation.accepted == generation.drafted
        assert set(generation.drafted[:-1]) == {5}


def test_doubt_ends_a_draft(target):
    drafter = arm(target, artifact(), threshold=1.0, threshold_step=0.0)
    assert all(set(generation.drafted) <= {0, 1} for generation in decode(target, drafter, PROMPTS))


def test_threshold_follows_the_official_rule():
    threshold = import_part(METHOD, "threshold").Threshold(0.8, 0.9, 0.01, 8)
    threshold.update(0, 4)
    assert threshold.value == pytest.approx(0.801)
    for _ in range(6):
        threshold.update(4, 4)
    assert threshold.matched == pytest.approx(1 - 0.5**6)
    # Matched 0.5, 0.75, 0.875: up; then above the target: down.
    assert threshold.value == pytest.approx(0.801 + 3 * 0.001 - 3 * 0.001)
    before = threshold.value
    threshold.update(8, 8)
    assert threshold.value == pytest.approx(before)


def test_sampling_follows_the_seed(target):
    settings = SamplingSettings(temperature=1.0)
    drafter = arm(target, artifact([1, 2], [2]), settings, sampling_threshold=0.1, draft_vocabulary=30)
    first = [generation.ids for generation in decode(target, drafter, PROMPTS, settings=settings)]
    assert first == [generation.ids for generation in decode(target, drafter, PROMPTS, settings=settings)]
    assert first != [generation.ids for generation in decode(target, drafter, PROMPTS, settings=settings, seed=99)]


def test_sampled_pairs_have_the_targets_frequencies():
    settings = SamplingSettings(temperature=1.0)
    model = tiny_transformer(5, layers=2, seed=2, scale=0.25)
    ranked = {
        "draft_and_verify": Artifact(
            {"ranked_ids": torch.tensor([3, 1, 0, 2, 4])}, artifact([0], [1], 2)["draft_and_verify"].metadata
        )
    }
    drafter = arm(model, ranked, settings, draft_vocabulary=3, sampling_threshold=0.4, draft_length=2)
    prompt, count = [1, 2, 3], 1500
    generations = decode(model, drafter, [prompt] * count, 3, settings)
    drawn, truth = torch.zeros(25), torch.zeros(25)
    for generation in generations:
        drawn[generation.ids[1] * 5 + generation.ids[2]] += 1
    for first in range(5):
        for index in range(25):
            text = [*prompt, first, index // 5, index % 5]
            p = model.logits(model.forward_causal(torch.tensor([text])).hidden)[0].softmax(-1)
            truth[index] += p[torch.arange(2, 5), torch.tensor(text[3:])].prod()
    expected = truth * count
    chi_square = ((drawn - expected) ** 2 / expected).sum()
    assert chi_square < 24 + 5 * (2 * 24) ** 0.5
    assert sum(sum(generation.accepted) for generation in generations) > 0


def test_an_artifact_of_another_depth_is_refused(target):
    with pytest.raises(MissingArtifact, match="7 layers"):
        arm(target, artifact(layers=7))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_head_rows_survive_packing(tied, packed):
    model = tiny_transformer(VOCABULARY, tied_embeddings=tied)
    if tied:
        model.head.weight = model.embedding
    ids = torch.tensor([3, 60, 7])
    rows = (model.embedding if tied else model.head.weight)[ids].clone()
    if packed:
        model.pack()
    assert torch.equal(head_rows(model, ids), rows)
    hidden = torch.randn(2, 32)
    subset = shared_head(model, torch.tensor([60, 7, 3, 1]), 3)
    assert torch.allclose(subset.logits(hidden), model.head(hidden)[:, [3, 7, 60]], atol=1e-5)
    assert subset.distribution(subset.logits(hidden), GREEDY).shape == (2, VOCABULARY)


class TestSearch:
    """The search on a tiny target, with made-up costs, so that nothing depends on the clock."""

    @pytest.fixture(autouse=True)
    def _costs(self, monkeypatch):
        costs = import_part(METHOD, "costs").Costs(0.09, 0.13, 0.12, (1.0, *(1 + 0.02 * width for width in range(8))))
        monkeypatch.setattr(import_part(METHOD, "train"), "measure_costs", lambda *_: costs)

    def make(self, target, work, seed=0, trials=12, prompts=PROMPTS):
        budget = Budget(name="test", tokens=1, trials=trials, seed=seed)
        loaded = {torch.bfloat16: target}
        job = Job(Path(), None, prompts, frozenset(), budget, target.device, work, loaded)
        return import_part(METHOD, "train").make(job)

    def test_same_seed_same_trials(self, target, tmp_path):
        first, again, other = (self.make(target, tmp_path / str(run), seed) for run, seed in enumerate((5, 5, 6)))
        assert first.report["trials"] == again.report["trials"] != other.report["trials"]
        assert len(first.report["trials"]) == 12
        assert first.artifact.metadata == again.artifact.metadata
        json.dumps(first.report, allow_nan=False)

    @pytest.mark.parametrize("killed_after", [1, 7, 12])
    def test_a_killed_search_goes_on(self, target, tmp_path, monkeypatch, killed_after):
        whole = self.make(target, tmp_path / "whole")
        exam = import_part(METHOD, "exam").Exam
        marks, calls = exam.marks, []

        def mortal(self, plan):
            if len(calls) == killed_after:
                raise KeyboardInterrupt
            calls.append(plan)
            return marks(self, plan)

        monkeypatch.setattr(exam, "marks", mortal)
        if killed_after < 12:
            with pytest.raises(KeyboardInterrupt):
                self.make(target, tmp_path / "killed")
            calls.clear()
            killed_after = 12
        resumed = self.make(target, tmp_path / "killed")
        assert resumed.report == whole.report
        calls.clear()
        assert self.make(target, tmp_path / "killed").report == whole.report
        assert calls == []

    def test_another_seed_starts_afresh(self, target, tmp_path):
        self.make(target, tmp_path, seed=1, trials=3)
        assert self.make(target, tmp_path, seed=2, trials=3).report == self.make(target, tmp_path / "b", 2, 3).report

    def test_the_result_drafts(self, target, plain, tmp_path):
        made = self.make(target, tmp_path, trials=30)
        best = made.report["best"]
        assert best["speedup"] == max(trial["speedup"] for trial in made.report["trials"])
        folder = tmp_path / "artifact"
        made.artifact.save(folder)
        artifacts = {"draft_and_verify": Artifact.load(folder, "draft_and_verify")}
        generations = decode(target, arm(target, artifacts), PROMPTS)
        assert [generation.ids for generation in generations] == [ids[:40] for ids in plain]

    def test_no_prompt_is_a_sentence(self, target, tmp_path):
        with pytest.raises(ConfigError, match="tune split"):
            self.make(target, tmp_path, prompts=[[1] * 250])


def test_costs_are_measured_and_add_up(target):
    costs = import_part(METHOD, "costs").measure_costs(target, shared_head(target, torch.arange(61), 0), 3)
    assert costs.verify[0] == 1.0
    assert len(costs.verify) == 4
    assert 0 < costs.draft(0, 0) < costs.draft(4, 4) < 3
    assert costs.speedup([(2, 2), (1, 0)], 0.5) == pytest.approx(4 / (3 * 0.5 + costs.verify[2] + costs.verify[1]))


def test_marks_are_those_of_real_drafting(target, plain):
    """The wide pass of the exam picks what step-by-step drafting picks, as long as everything is accepted."""
    exam_part = import_part(METHOD, "exam")
    texts = [exam_part.Text(prompt, ids[:14]) for prompt, ids in zip(PROMPTS, plain, strict=True)]
    exam = exam_part.Exam(target, shared_head(target, torch.arange(61), 0), texts, 4)
    whole = exam.marks(ALL_LAYERS)
    assert whole.matched == whole.positions == 4 * 13
    assert whole.rounds(0.0) == [(4, 4), (4, 4), (4, 4), (1, 1)] * 4
    plan = LayerPlan(skipped_attention=frozenset({1, 2}), skipped_feed_forward=frozenset({2}))
    marks = exam.marks(plan)
    assert 0 < marks.matched < marks.positions
    right = []
    for text in texts:
        cache = target.new_cache(1, 64)
        for index, token in enumerate(text.answer[:-1]):
            if index % 4 == 0:
                committed = [*text.prompt, *text.answer[:index]]
                cache.reset()
                target(torch.tensor([committed]), cache)
                cache.advance([len(committed)])
                right.append([])
            logits = target.logits(target(torch.tensor([[token]]), cache, plan=plan).hidden)
            cache.advance([1])
            right[-1].append(int(logits.argmax()) == text.answer[index + 1])
    assert marks.right == right

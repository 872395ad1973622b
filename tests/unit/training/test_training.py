"""Corpus, examples, the training loop and every trained method, on tiny random targets."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

from specatlas.catalog.discovery import load_catalog
from specatlas.config import Budget, read_config
from specatlas.drafting.methods import import_part
from specatlas.drafting.setup import Artifact
from specatlas.errors import CatalogError, ModelSourceError
from specatlas.models.tiny import make_tiny_checkpoint
from specatlas.project import Project, find_project
from specatlas.training.corpus import build_corpus
from specatlas.training.examples import collate, minibatches, read_examples
from specatlas.training.job import Job
from specatlas.training.loop import Recipe, train
from specatlas.training.vocabulary import coverage, frequent_tokens

TRAINED = ["speculative_sampling", "medusa", "eagle"]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = find_project().root
    project = Project(root=root, results=tmp_path_factory.mktemp("results"))
    make_tiny_checkpoint(project.models / "tiny-llama", "llama")
    return project


@pytest.fixture(scope="module")
def config():
    config = read_config(find_project().root / "workflow/config/smoke.yaml")
    corpus = config.corpus.model_copy(update={"instructions": 24, "max_new_tokens": 24, "batch": 8})
    return config.model_copy(update={"corpus": corpus, "target": "tiny-llama"})


@pytest.fixture(scope="module")
def corpus(project, config):
    return build_corpus(project, config)


def make_job(project, corpus, work, tokens=6000):
    return Job(
        target_folder=project.models / "tiny-llama",
        corpus=corpus,
        tune_prompts=[],
        eos_ids=frozenset(),
        budget=Budget(name="test", tokens=tokens, trials=2),
        device=torch.device("cpu"),
        work=work,
    )


def test_corpus_has_greedy_and_sampled_answers(corpus):
    frame = pd.read_parquet(corpus)
    assert len(frame) == 24
    assert frame["sampled"].sum() == 12
    assert frame["instruction"].is_unique
    assert (frame["answer_ids"].map(len) <= 24).all()


def test_corpus_goes_on_where_it_was_killed(project, config, corpus, monkeypatch):
    before = pd.read_parquet(corpus)
    corpus.unlink()
    import specatlas.training.corpus as module

    answered = []
    real = module._answer

    def dies_at_the_third(*arguments):
        if len(answered) == 2:
            raise KeyboardInterrupt
        answered.append(1)
        return real(*arguments)

    monkeypatch.setattr(module, "_answer", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        build_corpus(project, config)
    assert not corpus.exists()
    monkeypatch.setattr(module, "_answer", lambda *arguments: answered.append(1) or real(*arguments))
    build_corpus(project, config)
    assert len(answered) == 4
    assert pd.read_parquet(corpus).equals(before)


def test_examples_hold_the_hidden_states_that_the_head_reads(project, corpus, tmp_path):
    job = make_job(project, corpus, tmp_path)
    target = job.target(torch.float32)
    example = read_examples(corpus, target).training[0]
    logits = target.head(example.features.float())
    with torch.inference_mode():
        expected = target.logits(target.forward_causal(example.tokens.unsqueeze(0)).hidden)[0]
    assert torch.allclose(logits, expected, atol=0.05 * float(expected.std()))
    batch = collate([example], torch.device("cpu"))
    assert int(batch.answer.sum()) == len(example.tokens) - example.answer_start
    assert bool(batch.answer[0, example.answer_start - 1])
    assert not bool(batch.answer[0, len(example.tokens) - 1])


def test_minibatches_cover_every_example_once_an_epoch(project, corpus, tmp_path):
    examples = read_examples(corpus, make_job(project, corpus, tmp_path).target()).training
    batches = minibatches(examples, 400, torch.Generator().manual_seed(0))
    seen = []
    while len(seen) < len(examples):
        seen += [id(example) for example in next(batches)]
    assert sorted(seen) == sorted(map(id, examples))


def test_frequent_tokens_cover_more_than_any_other_choice(project, corpus, tmp_path):
    examples = read_examples(corpus, make_job(project, corpus, tmp_path).target()).training
    ids = frequent_tokens(examples, 384, 20)
    assert ids.tolist() == sorted(set(ids.tolist()))
    assert coverage(examples, ids, 384) >= coverage(examples, torch.arange(20), 384)
    assert coverage(examples, torch.arange(384), 384) == 1.0


@pytest.mark.parametrize("slug", TRAINED)
def test_training_learns_and_can_be_loaded(project, corpus, tmp_path, slug):
    method = load_catalog(project.methods)[slug]
    made = import_part(method, "train").make(make_job(project, corpus, tmp_path, tokens=20_000))
    points = made.report["curve"]["points"]
    if slug == "speculative_sampling":
        # The tiny target has two layers, and so has the draft model that starts from them: it drafts itself.
        assert points[-1]["agreement"] > 0.9
    else:
        losses = [point["loss"] for point in points if "loss" in point]
        assert sum(losses[-3:]) < sum(losses[:3])
    assert 0 < made.report["coverage"] <= 1
    assert isinstance(made.artifact, Artifact)


def _toy(project, corpus, work, tokens):
    torch.manual_seed(1)
    module = nn.Linear(64, 8)
    loss = lambda batch: (module(batch.features[batch.answer]) - 1).square().mean()  # noqa: E731
    job = make_job(project, corpus, work, tokens)
    examples = read_examples(corpus, job.target())
    recipe = Recipe(tokens=tokens, batch_tokens=400)
    curve = train(module, loss, lambda batch: {"loss_again": float(loss(batch))}, examples, recipe, job=job, name="toy")
    return module, curve


def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(project, corpus, tmp_path, monkeypatch):
    whole, curve = _toy(project, corpus, tmp_path / "whole", 4000)
    import specatlas.training.loop as loop

    steps = []
    real = loop._State.step

    def dies(state, loss, size):
        if len(steps) == 5:
            state.save()
            raise KeyboardInterrupt
        steps.append(1)
        return real(state, loss, size)

    monkeypatch.setattr(loop._State, "step", dies)
    with pytest.raises(KeyboardInterrupt):
        _toy(project, corpus, tmp_path / "broken", 4000)
    monkeypatch.setattr(loop._State, "step", real)
    resumed, again = _toy(project, corpus, tmp_path / "broken", 4000)
    assert torch.equal(whole.weight, resumed.weight)
    assert again.final == curve.final


KILLED = """
import sys, torch
sys.path.insert(0, {root!r})
from pathlib import Path
from specatlas.project import Project
import specatlas.training.loop as loop
from tests.unit.training.test_training import _toy
real = loop._State.step
def slow(state, loss, size):
    import time
    value = real(state, loss, size)
    print("step", flush=True)
    time.sleep(0.05)
    return value
loop._State.step = slow
_toy(Project(Path({root!r}), Path({results!r})), Path({corpus!r}), Path({work!r}), 10**7)
"""


def test_sigterm_leaves_a_checkpoint(project, corpus, tmp_path):
    code = KILLED.format(root=str(project.root), results=str(project.results), corpus=str(corpus), work=str(tmp_path))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "step"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["done"] > 0
    assert not list(tmp_path.glob("*.tmp"))


def test_a_missing_corpus_or_target_says_what_to_do(project, config, tmp_path):
    with pytest.raises(ModelSourceError, match="specatlas corpus"):
        read_examples(Path("nowhere.parquet"), make_job(project, None, tmp_path).target())
    with pytest.raises(ModelSourceError, match="specatlas fetch"):
        build_corpus(project, config.model_copy(update={"target": "absent"}))


def test_a_method_without_training_has_nothing_to_make(project, config):
    from specatlas.training.artifacts import make_artifact

    with pytest.raises(CatalogError, match="needs no training"):
        make_artifact(project, config, "prompt_lookup")

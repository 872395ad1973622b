"""The template is a working method that is not listed; a method made from it runs as it stands."""

import shutil
from pathlib import Path

import pytest
import torch

from specatlas.catalog.card import MethodClass, read_card
from specatlas.catalog.discovery import Method, load_catalog
from specatlas.cli.scaffold import create_method
from specatlas.config import Budget
from specatlas.drafting.methods import build_drafter, import_part, prepare
from specatlas.drafting.setup import Setup
from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.verification import make_rule
from specatlas.project import Project
from specatlas.training.job import Job
from tests.support.models import tiny_transformer

ROOT = Path(__file__).parents[3]
PROMPTS = [[5], [1, 2, 3, 1, 2, 3, 1, 2], [60, 0]]


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "methods"
    shutil.copytree(ROOT / "methods/_template", folder / "_template", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "methods/taxonomy.yaml", folder)
    return Project(tmp_path, tmp_path / "results")


def test_the_template_is_no_method():
    assert "my_method" not in load_catalog(ROOT / "methods").methods


def test_a_method_made_from_it_runs(project):
    create_method(project, "skipper", MethodClass.MODEL_CENTRIC, name="Skipper: one", place=None)
    catalog = load_catalog(project.methods)
    method = catalog["skipper"]
    assert method.card.name == "Skipper: one"
    assert not [path for path in method.sources if "my_method" in path.read_text(encoding="utf-8")]
    target = tiny_transformer(61, seed=3)
    for settings in (SamplingSettings(), SamplingSettings(temperature=1.0)):
        drafter, rule, _ = prepare(method, target, settings, artifacts={})
        generations = Decoder(target, drafter, rule, settings, check=True).generate(
            PROMPTS, StopConditions(30), [0, 1, 2]
        )
        assert sum(sum(row.drafted) for row in generations.generations) > 0
        if settings.greedy:
            plain = Decoder(target, PlainDrafter(), make_rule("greedy"), settings)
            truth = plain.generate(PROMPTS, StopConditions(30), [0, 1, 2]).generations
            assert [row.ids for row in generations.generations] == [row.ids for row in truth]


def test_its_training_example_works(tmp_path):
    template = Method(read_card(ROOT / "methods/_template/method.yaml"), ROOT / "methods/_template")
    target = tiny_transformer(61)
    budget = Budget(name="test", tokens=1)
    job = Job(Path(), None, [[1, 2, 3], [1, 2, 4, 1, 5]], frozenset(), budget, target.device, tmp_path)
    job._loaded[torch.bfloat16] = target
    part = import_part(template, "train")
    assert part.make(job).artifact.tensors["follower"][[0, 1, 4]].tolist() == [-1, 2, 1]
    assert part.untrained(target, 0).tensors["follower"].shape == (61,)
    assert build_drafter(template, Setup(target, SamplingSettings(), {"draft_length": 2})).batched

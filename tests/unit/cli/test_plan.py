"""The plan: which paths, which inputs, and parameters that change only with what a job depends on."""

import json
from pathlib import Path

import pytest
import yaml

from specatlas.config import parse_config, read_config
from specatlas.errors import CatalogError, ConfigError, ModelSourceError
from specatlas.plan import Plan, check_plan, models_of, package_sha256
from specatlas.project import Project
from tests.unit.cli.conftest import REPOSITORY

CONFIGS = sorted((REPOSITORY / "workflow/config").glob("*.yaml"))


def plan_of(project, **changes) -> Plan:
    """A plan of the smoke configuration with these keys replaced."""
    data = yaml.safe_load((REPOSITORY / "workflow/config/smoke.yaml").read_text())
    return Plan(project, parse_config(data | changes, "test"), "box")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configurations_are_valid(path: Path) -> None:
    config = read_config(path)
    assert config.name == path.stem
    check_plan(Plan(Project(root=REPOSITORY, results=Path("results")), config, "box"))
    assert config.prompts.split == "test"


def test_a_record_depends_on_its_own_settings_only(project) -> None:
    plan = plan_of(project)
    other = plan_of(
        project,
        name="other",
        corpus={"name": "long", "instructions": 99},
        settings={
            "sampled": {"temperature": 1.0},
            "greedy-fp32": plan.config.settings["greedy-fp32"].model_dump() | {"hyperparameters": {"trained": {}}},
        },
    )
    assert plan.record_config("greedy-fp32", "lookup") == other.record_config("greedy-fp32", "lookup")
    assert plan.record("greedy-fp32", "lookup") == other.record("greedy-fp32", "lookup")
    assert plan.corpus_config() != other.corpus_config()
    changed = plan_of(project, settings={"greedy-fp32": {"cycles": 7}})
    assert plan.record_config("greedy-fp32", "lookup") != changed.record_config("greedy-fp32", "lookup")


def test_the_budget_matters_to_trained_methods_only(project) -> None:
    plan, richer = plan_of(project), plan_of(project, budget={"name": "smoke", "tokens": 9})
    assert plan.artifact_config("trained") != richer.artifact_config("trained")
    assert plan.record_config("greedy-fp32", "trained") != richer.record_config("greedy-fp32", "trained")
    assert plan.record_config("greedy-fp32", "lookup") == richer.record_config("greedy-fp32", "lookup")


def test_every_parameter_is_a_whole_configuration(project) -> None:
    plan = plan_of(project)
    for text in (plan.corpus_config(), plan.artifact_config("trained"), plan.record_config("greedy-fp32", "lookup")):
        parse_config(json.loads(text), "job")


def test_a_public_drafter_replaces_training(project) -> None:
    plan = plan_of(project, drafters={"trained": "public-heads"})
    assert plan.model("public-heads") in plan.artifact_inputs("trained")
    assert plan.corpus not in plan.artifact_inputs("trained")
    assert json.loads(plan.artifact_config("trained"))["drafters"] == {"trained": "public-heads"}
    assert models_of(plan.config) == ["tiny-llama", "public-heads"]


def test_overrides_are_checked_against_the_cards(project) -> None:
    settings = {"s": {"hyperparameters": {"lookup": {"draft_length": 99}}}}
    with pytest.raises(CatalogError, match="must lie in"):
        check_plan(plan_of(project, settings=settings))
    with pytest.raises(ModelSourceError, match="no model 'tiny-lama'"):
        check_plan(plan_of(project, target="tiny-lama"))


def test_a_public_drafter_needs_a_method_that_converts_it(project) -> None:
    plan = plan_of(project, drafters={"trained": "public-heads"})
    with pytest.raises(ConfigError, match=r"drafters\.trained: .*train\.py has no convert"):
        check_plan(plan)
    (project.methods / "model_centric/trained/train.py").write_text("\n\ndef convert(checkpoint, job):\n    ...\n")
    check_plan(plan)


def test_a_method_that_cannot_run_is_not_measured(project) -> None:
    with pytest.raises(ConfigError, match=r"paper_only is catalogued: No code was released\."):
        _ = plan_of(project, methods=["paper_only"]).methods
    assert plan_of(project).slugs == ["lookup", "trained"]


def test_package_hashes_differ_by_part() -> None:
    assert package_sha256("analysis") != package_sha256("publish")
    assert package_sha256("files.py", "analysis") == package_sha256("analysis", "files.py")
    assert package_sha256("files.py") != package_sha256("errors.py")

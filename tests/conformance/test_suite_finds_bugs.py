"""The suite fails when it should: a sound method passes everything, each bug is found by the check meant for it."""

import shutil
from pathlib import Path

import pytest

from specatlas.catalog.discovery import load_catalog
from specatlas.engine.sampling import SamplingSettings
from specatlas.measure.conformance import CHECKS, distribution_p_value, run_checks
from specatlas.measure.conformance.models import forget_cases
from specatlas.measure.conformance.registry import run_check
from specatlas.measure.conformance.runner import one_thread
from specatlas.measure.conformance.subject import Subject
from specatlas.project import Project
from tests.conformance.broken import BREAKAGES, write_method

METHODS = Path(__file__).parents[2] / "methods"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("broken")
    (root / "methods").mkdir()
    shutil.copy(METHODS / "taxonomy.yaml", root / "methods")
    write_method(root / "methods", "sound", None)
    for slug, breakage in BREAKAGES.items():
        write_method(root / "methods", slug, breakage)
    return Project(root, root / "results")


@pytest.fixture(scope="module")
def catalog(project):
    return load_catalog(project.methods)


def test_a_sound_method_passes(project):
    result = run_checks(project, ["sound"])["sound"]
    assert result["passed"], {name: one["detail"] for name, one in result["checks"].items() if not one["passed"]}


@pytest.mark.parametrize("slug", BREAKAGES)
def test_found(catalog, slug):
    breakage = BREAKAGES[slug]
    with one_thread():
        outcome = run_check(breakage.check, Subject(catalog[slug], catalog))
    forget_cases()
    assert not outcome.passed, outcome.detail
    assert breakage.says in outcome.detail


def only(monkeypatch, *names):
    for name in set(CHECKS) - set(names):
        monkeypatch.delitem(CHECKS, name)


def test_one_failed_check_fails_the_method(project, monkeypatch):
    only(monkeypatch, "speculates", "eos", "target-untouched")
    result = run_checks(project, ["nothing_drafted"])["nothing_drafted"]
    assert not result["passed"]
    assert not result["checks"]["speculates"]["passed"]
    assert result["checks"]["eos"]["passed"]


def test_a_method_that_spoils_its_target_does_not_fail_the_next(project, monkeypatch):
    only(monkeypatch, "target-untouched", "exact-prompts")
    results = run_checks(project, ["target_changed", "sound"])
    assert not results["target_changed"]["passed"]
    assert results["sound"]["passed"]


def test_p_value_of_right_and_wrong_methods(catalog):
    settings = SamplingSettings(0.7, top_k=50, top_p=0.95)
    with one_thread():
        assert distribution_p_value(catalog["sound"], catalog, settings, 7) > 1e-3
        assert distribution_p_value(catalog["argmax_with_softmax_q"], catalog, settings, 7) < 1e-9
        same = [distribution_p_value(catalog["sound"], catalog, settings, 8) for _ in range(2)]
        assert same[0] == same[1]

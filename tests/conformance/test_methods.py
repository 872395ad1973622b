"""Every runnable method keeps the contract: the same checks that `specatlas check` runs."""

from functools import cache
from pathlib import Path

import pytest
import torch

from specatlas.catalog.discovery import load_catalog
from specatlas.measure.conformance import CHECKS, run_checks
from specatlas.measure.conformance.models import architectures, long_prompt, short_context, small, varied
from specatlas.measure.conformance.registry import run_check
from specatlas.measure.conformance.subject import Subject
from specatlas.project import Project

ROOT = Path(__file__).parents[2]
CATALOG = load_catalog(ROOT / "methods")
SLUGS = [method.card.slug for method in CATALOG.runnable()]


@cache
def subject(slug):
    return Subject(CATALOG[slug], CATALOG)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("slug", SLUGS)
def test_method(slug, name):
    outcome = run_check(name, subject(slug))
    assert outcome.passed, outcome.detail
    assert outcome.detail


def test_the_suite_reports_every_check():
    result = run_checks(Project(ROOT, ROOT / "results"), ["autoregressive"])
    assert list(result) == ["autoregressive"]
    assert result["autoregressive"]["passed"]
    assert set(result["autoregressive"]["checks"]) == set(CHECKS)


def leads(case):
    """Smallest lead of the likeliest token over the second, along the plain answers."""
    smallest = float("inf")
    for prompt, answer in zip(case.prompts, case.plain, strict=True):
        tokens = torch.tensor([[*prompt, *answer.ids]])
        with torch.inference_mode():
            logits = case.target.logits(case.target(tokens, case.target.new_cache(1, tokens.shape[1])).hidden)[0]
        best = logits[len(prompt) - 1 : -1].topk(2).values
        smallest = min(smallest, float((best[:, 0] - best[:, 1]).min()))
    return smallest


@pytest.mark.parametrize("made", [small, varied, long_prompt, short_context])
def test_plain_answers_are_varied_and_clear_of_ties(made):
    """Otherwise rounding could fail a right method, and a constant text could pass a wrong one."""
    case = made()
    assert leads(case) > 1e-3
    assert max(len(set(answer.ids)) for answer in case.plain) >= 4


def test_other_architectures_are_clear_of_ties():
    assert all(leads(case) > 1e-3 for case in architectures())

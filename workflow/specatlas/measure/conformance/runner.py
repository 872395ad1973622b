"""Runs the checks over methods."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from specatlas.catalog.discovery import load_catalog
from specatlas.measure.conformance.models import forget_cases
from specatlas.measure.conformance.registry import CHECKS, run_check
from specatlas.measure.conformance.subject import Subject
from specatlas.project import Project


def run_checks(project: Project, slugs: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Checks methods.

    Args:
        project: Whose catalog.
        slugs: Which methods; None for every runnable one.

    Returns:
        By slug: `passed`, and `checks` by name with `passed` and `detail`.

    Raises:
        CatalogError: The catalog cannot be read.
        UnknownMethod: There is no such method.
    """
    catalog = load_catalog(project.methods)
    chosen = [method.card.slug for method in catalog.runnable()] if slugs is None else slugs
    with one_thread():
        return {slug: check_method(Subject(catalog[slug], catalog)) for slug in chosen}


def check_method(subject: Subject) -> dict[str, Any]:
    """Every check on one method."""
    outcomes = {name: run_check(name, subject) for name in CHECKS}
    if not outcomes["target-untouched"].passed:
        forget_cases()
    return {
        "passed": all(outcome.passed for outcome in outcomes.values()),
        "checks": {name: {"passed": one.passed, "detail": one.detail} for name, one in outcomes.items()},
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Tiny matrices run fastest on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

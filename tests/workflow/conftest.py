"""Checkouts for the workflow tests."""

import shutil
from pathlib import Path

import pytest

from tests.workflow.checkout import Checkout, environment_for, make_checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh checkout in which nothing has run, with the smoke configuration as default."""
    return make_checkout(tmp_path / "checkout")


@pytest.fixture
def finished(finished_once: Checkout, tmp_path: Path) -> Checkout:
    """A copy of a checkout in which everything has run."""
    root = tmp_path / "checkout"
    shutil.copytree(finished_once.root, root, symlinks=True)
    return Checkout(root, environment_for(root))


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Runs the whole DAG once; `finished` copies it."""
    checkout = make_checkout(tmp_path_factory.mktemp("finished") / "checkout")
    run = checkout.snakemake()
    assert run.code == 0, run.text
    checkout.calls()
    return checkout

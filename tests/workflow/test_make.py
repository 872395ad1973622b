"""The Makefile and the CI script: what they say on machines that lack something."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflow.checkout import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the Makefile, an environment that counts as made, and an empty folder for programs."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    """Puts a small program on the test's PATH."""
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs make there, without this session's own make flags."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_help_lists_the_targets(folder: Path) -> None:
    out = make(folder).stdout
    for target in ("setup", "leaderboard", "smoke", "test", "lint", "clean-results"):
        assert f"\n{target} " in f"\n{out}"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("exit 1", "SpecAtlas needs Python 3.11 or later as old-python"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "type apt-get install python3-venv, then make setup."),
    ],
)
def test_setup_says_in_one_sentence_what_is_missing(folder: Path, script: str, sentence: str) -> None:
    program(folder, "old-python", script)
    done = make(folder, "setup", "PYTHON=old-python")
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[0]
    assert not (folder / ".venv").exists()


@pytest.mark.parametrize(("gpu", "profile"), [(False, "cpu"), (True, "gpu")])
def test_leaderboard_takes_the_profile_of_the_machine(folder: Path, gpu: bool, profile: str) -> None:
    if gpu:
        program(folder, "nvidia-smi", "exit 0")
    elif shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    out = make(folder, "--dry-run", "leaderboard").stdout
    assert f"--workflow-profile workflow/profiles/{profile} --configfile workflow/config/default.yaml" in out
    lines = out.splitlines()
    order = [
        next(i for i, line in enumerate(lines) if part in line) for part in ("unlock", "snakemake", "board --show")
    ]
    assert order == sorted(order)


def test_the_ci_script_can_be_run() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", str(script)], check=True)
    text = script.read_text()
    assert text.index("make test") < text.index("make lint")

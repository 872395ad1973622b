"""A small checkout, a command line that returns what it printed, and stand-ins for the engine."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from specatlas.cli import main
from specatlas.project import ROOT_VARIABLE, Project

REPOSITORY = Path(__file__).resolve().parents[3]
TAXONOMY = """\
classes:
  - key: draft_centric
    name: Draft-centric
    summary: Drafts.
    children: [{key: retrieval, name: Retrieval, summary: Reuses.}]
  - {key: model_centric, name: Model-centric, summary: Models.}
  - {key: control, name: Controls, summary: Controls.}
"""
LOOKUP = """\
slug: lookup
name: Look-up
summary: Copies what came before.
class: draft_centric
place: {atlas: draft_centric/retrieval}
papers: [{title: A paper, arxiv: "2304.04487", year: 2023, venue: arXiv}]
draft_shape: chain
lossless: {greedy: exact, sampling: distribution}
verification: {greedy: greedy, sampling: speculative}
hyperparameters:
  draft_length: {default: 4, minimum: 1, maximum: 16, unit: tokens, description: Tokens a draft.}
status: runnable
"""
TRAINED = """\
slug: trained
name: Trained
summary: Learns.
class: model_centric
place: {atlas: model_centric}
needs: {artifacts: [trained], draft_model: true}
training: {kind: gradient, summary: Learns from the corpus.}
draft_shape: tree
lossless: {greedy: exact, sampling: unsupported}
verification: {greedy: greedy}
status: runnable
"""
PAPER_ONLY = """\
slug: paper_only
name: Paper only
summary: Exists on paper.
class: model_centric
place: {atlas: model_centric}
draft_shape: block
lossless: {greedy: lossy, sampling: unsupported}
status: catalogued
reason: No code was released.
"""
TEMPLATE = """\
# What a new method starts from.
slug: my_method
name: My method
summary: One sentence.
class: draft_centric
place: {survey: draft_centric, atlas: draft_centric/retrieval}
draft_shape: chain
lossless: {greedy: exact, sampling: unsupported}
verification: {greedy: greedy}
status: runnable
"""
MODELS = """\
models:
  tiny-llama: &tiny
    {source: "tiny:llama", licence: MIT, family: llama, template: ChatML, description: Random., role: both}
  public-heads: *tiny
"""


@dataclass
class Result:
    """What one command did."""

    code: int
    out: str
    err: str

    def refused(self, *parts: str) -> None:
        """Asserts one sentence on standard error, nothing on standard output, exit code 2."""
        assert self.code == 2, self
        assert self.out == ""
        assert len(self.err.strip().splitlines()) == 1, self.err
        assert "Traceback" not in self.err
        for part in parts:
            assert part in self.err


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A checkout with two runnable methods, one catalogued and the template."""
    root = tmp_path / "checkout"
    files = {
        "Snakefile": "",
        "methods/taxonomy.yaml": TAXONOMY,
        "methods/draft_centric/lookup/method.yaml": LOOKUP,
        "methods/draft_centric/lookup/method.py": "def build(setup):\n    return None\n",
        "methods/model_centric/trained/method.yaml": TRAINED,
        "methods/model_centric/paper_only/method.yaml": PAPER_ONLY,
        "methods/_template/method.yaml": TEMPLATE,
        "methods/_template/method.py": '"""My method: what my_method does; my_methods stays."""\n',
        "data/models.yaml": MODELS,
        "workflow/config/default.yaml": (REPOSITORY / "workflow/config/smoke.yaml").read_text(),
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("SPECATLAS_DEBUG", raising=False)
    monkeypatch.chdir(root)
    return Project(root=root, results=root / "results")


@pytest.fixture
def cli(project: Project, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs one command in the small checkout."""

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        code = exit_.value.code
        return Result(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces a module of the engine by one with just these functions."""

    def replace(name: str, **functions: Any) -> None:
        module = ModuleType(name)
        module.__dict__.update(functions)
        monkeypatch.setitem(sys.modules, name, module)

    return replace


def raiser(error: BaseException) -> Callable[..., Any]:
    """A function that raises `error`."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail

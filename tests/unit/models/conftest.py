from pathlib import Path

import pytest
import yaml

from specatlas.models.tiny import make_tiny_checkpoint
from specatlas.project import Project


@pytest.fixture
def project(tmp_path):
    (tmp_path / "data").mkdir()
    return Project(root=tmp_path, results=tmp_path / "results")


@pytest.fixture
def register(project):
    """Writes a model list with one entry `m`; keywords are added to or replace its fields."""

    def write(source: str, **fields) -> None:
        entry = {"licence": "MIT", "family": "llama", "template": "own", "description": "A model.", "role": "both"}
        text = yaml.safe_dump({"models": {"m": entry | {"source": source} | fields}})
        (project.data / "models.yaml").write_text(text)

    return write


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("tiny"), "llama", seed=1)

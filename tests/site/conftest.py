"""One site of made-up boards for all tests here: building it is the slow part."""

from collections.abc import Callable
from pathlib import Path

import pytest

from specatlas.project import Project
from specatlas.publish import build_site
from tests.site import samples

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The checkout's templates and pages, with results elsewhere."""
    return Project(root=ROOT, results=tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="session")
def public(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; tests must not change it."""
    evil = samples.card(
        "evil",
        "draft_centric/search",
        name=samples.HOSTILE,
        summary=samples.HOSTILE,
        official_code="javascript:alert(1)",
        papers=({"title": samples.HOSTILE, "url": "javascript:alert(2)", "year": 2024},),
    )
    reason = samples.row(
        "evil", "draft_centric/search", None, name=samples.HOSTILE, status="failed", reason=samples.HOSTILE
    )
    boards = samples.boards(samples.board(reason), samples.board(machine=samples.HOSTILE))
    return build_site(project, boards, samples.catalog(evil), tmp_path_factory.mktemp("out") / "public")


@pytest.fixture
def read(public: Path) -> Callable[[str], str]:
    """Reads a page of the built site."""
    return lambda path: (public / path).read_text(encoding="utf-8")

"""The build: complete, repeatable, careful with folders, and loud where something is wrong."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from specatlas.analysis.schema import Boards
from specatlas.catalog.discovery import Catalog
from specatlas.catalog.taxonomy import read_taxonomy
from specatlas.project import Project
from specatlas.publish import SiteError, build_site, check_site
from tests.site import samples
from tests.site.conftest import ROOT

Read = Callable[[str], str]


def test_built_site_is_sound_and_complete(public: Path) -> None:
    slugs = [*samples.catalog().methods, "evil"]
    assert check_site(public, slugs) == []
    for page in ("index", "taxonomy", "methods/index", "methodology", "submit", "data"):
        assert (public / f"{page}.html").is_file()


def test_board_json_reads_back(public: Path) -> None:
    boards = Boards.model_validate_json((public / "data/board.json").read_text())
    assert len(boards.boards) == 2
    schema = json.loads((public / "data/board.schema.json").read_text())
    assert "boards" in schema["properties"]


def test_without_records_the_site_says_so(project: Project, tmp_path: Path) -> None:
    empty = Catalog({}, read_taxonomy(ROOT / "methods" / "taxonomy.yaml"))
    public = build_site(project, Boards(boards=()), empty, tmp_path / "public")
    assert "No records yet" in (public / "index.html").read_text()
    assert "No method here yet" in (public / "taxonomy.html").read_text()


def test_two_builds_are_identical_and_leave_nothing_behind(project: Project, tmp_path: Path) -> None:
    boards, catalog = samples.boards(samples.board()), samples.catalog()
    first = build_site(project, boards, catalog, tmp_path / "a")
    second = build_site(project, boards, catalog, tmp_path / "b")
    build_site(project, boards, catalog, second)
    assert _bytes(first) == _bytes(second)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert [path.name for path in (project.results / "site").iterdir()] == ["publish.lock"]


def test_two_builds_at_once_do_not_collide(project: Project, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(build_site, project, samples.boards(samples.board()), samples.catalog(), tmp_path / "public")
            for _ in range(2)
        ]
        assert [job.result() for job in jobs] == [tmp_path / "public"] * 2
    assert check_site(tmp_path / "public", list(samples.catalog().methods)) == []


def test_publishing_needs_no_torch() -> None:
    code = "import sys, specatlas.publish; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_foreign_output_folder_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("ten years of work")
    with pytest.raises(SiteError, match="something else"):
        build_site(project, samples.boards(), samples.catalog(), tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "ten years of work"


@pytest.fixture
def broken(project: Project, tmp_path: Path) -> Project:
    """A checkout whose site a test may break."""
    shutil.copytree(ROOT / "site", tmp_path / "site", ignore=shutil.ignore_patterns("public"))
    return Project(root=tmp_path, results=tmp_path / "results")


def test_broken_link_stops_the_build_and_keeps_the_old_site(broken: Project) -> None:
    public = broken.root / "site" / "public"
    (public / "data").mkdir(parents=True)
    (public / "data" / "board.json").write_text("old")
    page = broken.root / "site" / "docs" / "submit.md"
    page.write_text(page.read_text() + "\n[nowhere](missing.md)\n")
    with pytest.raises(SiteError, match=r"missing\.md"):
        build_site(broken, samples.boards(), samples.catalog())
    assert (public / "data" / "board.json").read_text() == "old"


def test_fault_in_a_template_fails_the_checks(broken: Project) -> None:
    page = broken.root / "site" / "templates" / "data.md.j2"
    page.write_text(page.read_text() + '\n<p><img src="https://example.org/pixel.png" alt=""></p>\n')
    with pytest.raises(SiteError, match="external_resource"):
        build_site(broken, samples.boards(), samples.catalog())


def test_undefined_name_in_a_template_is_named(broken: Project) -> None:
    page = broken.root / "site" / "templates" / "data.md.j2"
    page.write_text(page.read_text() + "{{ no_such_name }}")
    with pytest.raises(SiteError, match="no_such_name"):
        build_site(broken, samples.boards(), samples.catalog())


def test_hand_written_page_cannot_hide_a_generated_one(broken: Project) -> None:
    (broken.root / "site" / "docs" / "data.md").write_text("# Mine\n")
    with pytest.raises(SiteError, match=r"data\.md is generated"):
        build_site(broken, samples.boards(), samples.catalog())


def test_methodology_names_every_flag(read: Read) -> None:
    from specatlas.analysis.flags import CHECKS

    page = read("methodology.html")
    assert [code for code in CHECKS if f"<code>{code}</code>" not in page] == []

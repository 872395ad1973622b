"""Builds the site: hand-written and generated pages meet in a scratch folder, mkdocs builds, checks decide.

Every build has a scratch folder of its own below `results/site/`, and the finished site replaces the old one by
renaming: two builds do not collide, no tracked folder is written to, and a failed build leaves the old site as it was.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

from specatlas.analysis.schema import Boards
from specatlas.catalog.discovery import Catalog
from specatlas.files import write_text
from specatlas.project import Project
from specatlas.publish.checks import check_site
from specatlas.publish.errors import SiteError
from specatlas.publish.pages import render_data, render_pages

MARKER = "data/board.json"
SHOWN_FINDINGS = 10
# Silences the theme's advertisement for its successor; the fixed date keeps two builds of the same board identical.
MKDOCS_ENVIRONMENT = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true", "SOURCE_DATE_EPOCH": "0"}


def build_site(project: Project, boards: Boards, catalog: Catalog, output: Path | None = None) -> Path:
    """Builds and checks the whole site.

    Args:
        project: The checkout; its folder `site/` has templates, assets, hand-written pages and `mkdocs.yml`.
        boards: The figures; may be empty.
        catalog: The methods and the taxonomy.
        output: Folder of the finished site; `site/public` if None. Only an earlier site is ever replaced.

    Returns:
        The folder of the finished site.

    Raises:
        SiteError: The output folder holds something else, a template or a link is broken, or a check finds a fault.
    """
    source = project.root / "site"
    output = (output or source / "public").resolve()
    _check_replaceable(output)
    scratch_root = project.results / "site"
    scratch_root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=scratch_root) as name:
        scratch = Path(name)
        assemble(source, scratch / "docs", boards, catalog)
        _run_mkdocs(source / "mkdocs.yml", scratch)
        _check(scratch / "public", catalog)
        with FileLock(scratch_root / "publish.lock"):
            _replace(output, scratch / "public")
    return output


def assemble(source: Path, docs: Path, boards: Boards, catalog: Catalog) -> None:
    """Gathers hand-written pages, assets and generated pages and data in `docs`.

    Raises:
        SiteError: A generated page has the path of a hand-written one.
    """
    shutil.copytree(source / "docs", docs)
    shutil.copytree(source / "assets", docs / "assets")
    generated = render_pages(boards, catalog, source / "templates") | render_data(boards, catalog)
    for path, text in generated.items():
        if (docs / path).exists():
            raise SiteError(f"site/docs/{path} is generated; rename or remove the hand-written page.")
        write_text(docs / path, text)


def _run_mkdocs(config: Path, scratch: Path) -> None:
    """Runs mkdocs strictly; never with `-q`, which hides the warnings that strictness counts.

    A process of its own, so that the theme's logging and plugins leave ours alone.
    """
    derived = scratch / "mkdocs.yml"
    values = {"INHERIT": str(config.resolve()), "docs_dir": "docs", "site_dir": "public", "strict": True}
    write_text(derived, json.dumps(values, indent=2) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(derived)],
        env=os.environ | MKDOCS_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("WARNING", "ERROR"))]
        raise SiteError("mkdocs refused the site:\n" + "\n".join(lines or done.stderr.splitlines()[-SHOWN_FINDINGS:]))


def _check(public: Path, catalog: Catalog) -> None:
    findings = check_site(public, list(catalog.methods))
    if findings:
        shown = "\n".join(str(finding) for finding in findings[:SHOWN_FINDINGS])
        raise SiteError(f"The built site has {len(findings)} faults, so it was not published:\n{shown}")


def _check_replaceable(output: Path) -> None:
    """Refuses an output folder that is not an earlier site: the build replaces it whole."""
    if output.is_dir() and (not any(output.iterdir()) or (output / MARKER).is_file()):
        return
    if output.exists():
        raise SiteError(f"{output} holds something else than a site of SpecAtlas; choose another folder or empty it.")


def _replace(output: Path, built: Path) -> None:
    """Puts the built site in place of the old one; readers see the one or the other."""
    output.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        shutil.move(built, staged / "new")  # may cross file systems: the slow part, before anything is taken away
        if output.exists():
            output.rename(staged / "old")
        (staged / "new").rename(output)
    finally:
        shutil.rmtree(staged, ignore_errors=True)

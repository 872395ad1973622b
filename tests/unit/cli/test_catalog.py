"""`list`, `show`, `new`, and the speed of it all."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specatlas.catalog.discovery import load_catalog
from tests.unit.cli.conftest import REPOSITORY


def test_list_as_json_is_the_contract(cli) -> None:
    result = cli("list", "--json")
    assert result.code == 0
    assert result.err == ""
    methods = {method["slug"]: method for method in json.loads(result.out)}
    assert methods["lookup"] == {
        "slug": "lookup",
        "name": "Look-up",
        "class": "draft_centric",
        "category": "draft_centric/retrieval",
        "status": "runnable",
        "reason": None,
        "lossless": {"greedy": "exact", "sampling": "distribution"},
        "trained": False,
        "papers": [{"title": "A paper", "arxiv": "2304.04487", "url": None, "year": 2023, "venue": "arXiv"}],
    }
    assert methods["trained"]["trained"] is True
    assert methods["paper_only"]["reason"] == "No code was released."


def test_list_and_show_for_people(cli) -> None:
    assert "paper_only" in cli("list").out
    shown = cli("show", "trained").out
    assert "artifact of trained" in shown
    assert "draft_length" in cli("show", "lookup").out
    card = json.loads(cli("show", "lookup", "--json").out)
    assert card["class"] == "draft_centric"
    assert card["folder"] == "methods/draft_centric/lookup"


def test_unknown_slug_names_the_closest(cli) -> None:
    cli("show", "lokup").refused("No method is called `lokup`", "did you mean lookup?")


def test_broken_card_is_named(cli, project) -> None:
    card = project.methods / "draft_centric/lookup/method.yaml"
    card.write_text(card.read_text() + "surprise: 1\n")
    cli("list", "--json").refused("draft_centric/lookup/method.yaml: surprise:")


def test_new_copies_the_template_with_new_names(cli, project) -> None:
    assert cli("new", "fresh_idea", "--class", "model_centric", "--name", "Fresh idea").code == 0
    folder = project.methods / "model_centric/fresh_idea"
    card = load_catalog(project.methods)["fresh_idea"].card
    assert (card.name, card.method_class, card.place.atlas, card.place.survey) == (
        "Fresh idea",
        "model_centric",
        "model_centric",
        None,
    )
    assert (folder / "method.py").read_text() == '"""Fresh idea: what fresh_idea does; my_methods stays."""\n'
    assert list(project.methods.glob(".new-*")) == []


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("lookup",), "exists already"),
        (("Bad-Slug",), "is no slug"),
        (("fine", "--place", "nowhere/at_all"), "no place `nowhere/at_all`"),
    ],
)
def test_new_refuses_and_leaves_nothing(cli, project, arguments: tuple[str, ...], part: str) -> None:
    before = sorted(project.methods.rglob("*"))
    cli("new", *arguments).refused(part)
    assert sorted(project.methods.rglob("*")) == before


def test_new_without_a_template_says_so(cli, project) -> None:
    (project.methods / "_template/method.yaml").unlink()
    cli("new", "fine").refused("restore methods/_template")
    assert not (project.methods / "draft_centric/fine").exists()


def test_listing_is_fast_and_imports_no_torch() -> None:
    code = (
        "import sys\nfrom specatlas.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'scipy', 'pandas', 'snakemake'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    for arguments in (["--help"], ["list", "--json"]):
        start = time.monotonic()
        subprocess.run([sys.executable, "-c", code, *arguments], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
        assert time.monotonic() - start < 3, "start-up takes 0.4 s on a quiet machine"


def test_outside_a_checkout_the_installed_one_is_used(tmp_path: Path) -> None:
    code = "from specatlas.project import find_project; print(find_project().root)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, env={}
    )
    assert Path(done.stdout.strip()) == REPOSITORY

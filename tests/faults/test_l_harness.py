"""Section L: defects that others' harness code was found to have."""

import shutil
from pathlib import Path

import pytest

from specatlas.catalog.discovery import load_catalog
from specatlas.errors import CatalogError, UnknownMethod
from tests.conformance.broken import write_method
from tests.faults.world import CATALOG, decode, method, plain_answers, target

METHODS = Path(__file__).parents[2] / "methods"


@pytest.mark.fault("L08")
def test_one_method_has_one_name(tmp_path):
    """Rows are found by slugs; a slug that is used twice, or differs from its folder, is refused."""
    shutil.copy(METHODS / "taxonomy.yaml", tmp_path)
    write_method(tmp_path, "lookup", None)
    assert list(load_catalog(tmp_path).methods) == ["lookup"]
    twin = tmp_path / "model_centric" / "lookup"
    shutil.copytree(tmp_path / "draft_centric" / "lookup", twin)
    card = (twin / "method.yaml").read_text(encoding="utf-8")
    (twin / "method.yaml").write_text(card.replace("class: draft_centric", "class: model_centric"), encoding="utf-8")
    with pytest.raises(CatalogError, match="used twice"):
        load_catalog(tmp_path)
    twin.rename(twin.with_name("lookup2"))
    with pytest.raises(CatalogError, match="differs from its folder"):
        load_catalog(tmp_path)
    with pytest.raises(UnknownMethod, match="prompt_lookup"):
        CATALOG["promt_lookup"]


@pytest.mark.fault("L10")
def test_look_up_proposes_nothing_rather_than_something():
    """A prompt of one token, shorter than any n-gram, and a text without a match: an empty draft, not a constant."""
    for overrides in ({}, {"min_ngram": 2, "max_ngram": 8}, {"min_ngram": 32, "max_ngram": 32}):
        drafter, _ = method("prompt_lookup", target(), **overrides)
        rows = decode(drafter)
        assert [row.ids for row in rows] == [ids[:24] for ids in plain_answers()]
        if overrides.get("min_ngram") == 32:
            assert not any(sum(row.drafted) for row in rows)
    first = decode(method("prompt_lookup", target())[0], [[5]], limit=3)[0]
    repeats = first.ids[0] == 5
    assert bool(first.drafted[0]) == repeats

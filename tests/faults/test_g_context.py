"""Section G: context, devices, configuration."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specatlas.engine.drafter import PlainDrafter
from specatlas.errors import CatalogError, ContextOverflow
from specatlas.measure.conformance.models import BASE, random_transformer
from tests.faults.world import CATALOG, PROMPTS, OwnDraft, decode, plain_answers, target
from tests.support.drafters import Scripted
from tests.support.models import tiny_transformer

ROOT = Path(__file__).parents[2]


@pytest.mark.fault("G02", "G03")
@pytest.mark.parametrize("batch", [[1], [0, 1, 2, 3]], ids=["alone", "ragged batch"])
def test_beyond_the_draft_models_context_decoding_goes_on_plainly(batch):
    """The answer is whole, and steps without a draft are counted as such; the target's context is not cut."""
    draft = tiny_transformer(61, seed=3, context=20)
    prompts = [PROMPTS[row] for row in batch]
    rows = decode(OwnDraft(target(), [4], draft), prompts, limit=48)
    for place, row in zip(batch, rows, strict=True):
        assert row.ids == plain_answers()[place]
        inside = [drafted > 0 for drafted in row.drafted]
        assert inside[0]
        assert not inside[-1]
        assert inside == sorted(inside, reverse=True), "once beyond, always beyond"


@pytest.mark.fault("G02", "G03")
def test_the_targets_own_limit_is_refused_before_decoding_with_its_size():
    with pytest.raises(ContextOverflow, match=r"250 tokens and an answer of 7 .* 256"):
        decode(PlainDrafter(), [[1] * 250], limit=7)


@pytest.mark.fault("G04", "G05")
def test_token_zero_is_a_token_and_padding_is_none():
    """A target that often says 0, rows that draft zeros, and rows that draft nothing but are padded with 0."""
    model = tiny_transformer(61, seed=3)
    with torch.no_grad():
        model.head.weight[0] = 4 * torch.sign(model.norm.weight)
        model.norm.weight.abs_()
    model.head.weight.data[1:] *= 0.05
    plain = [row.ids for row in decode(PlainDrafter(), model=model)]
    zeros = sum(ids.count(0) for ids in plain)
    assert zeros > 4
    known = [ids if row % 2 else [] for row, ids in enumerate(plain)]
    rows = decode(Scripted(known, 4), model=model)
    assert [row.ids for row in rows] == plain
    assert [sum(row.drafted) > 0 for row in rows] == [False, True, False, True]
    assert not sum(rows[0].accepted) + sum(rows[2].accepted)


@pytest.mark.fault("G06")
def test_methods_never_name_a_device():
    """They put tensors where the context says; whatever names a device breaks on another one."""
    named = re.compile(r"""["'](cuda|cpu|mps)(:\d)?["']|\.cuda\(|\.cpu\(""")
    files = [*(ROOT / "methods").rglob("method.py"), *(ROOT / "workflow/specatlas/drafting").glob("*.py")]
    assert len(files) > 15
    allowed = {"setup.py", "feature_drafter.py"}  # writing artifacts; the precision of a cache
    found = [path for path in files if named.search(path.read_text(encoding="utf-8")) and path.name not in allowed]
    assert not found


@pytest.mark.fault("G07", "G08")
@pytest.mark.parametrize("slug", [one.card.slug for one in CATALOG.runnable()])
def test_a_setting_that_does_not_exist_is_refused_and_defaults_are_read_back(slug):
    card = CATALOG[slug].card
    with pytest.raises(CatalogError, match="no hyper-parameter `num_assistant_tokens`"):
        card.settings({"num_assistant_tokens": 5})
    assert set(card.settings()) == set(card.hyperparameters)


@pytest.mark.fault("G03")
def test_a_draft_model_has_the_targets_context():
    from specatlas.drafting.draft_checkpoint import draft_architecture

    assert draft_architecture(replace(BASE, context=99), 1).context == 99
    assert random_transformer(replace(BASE, context=99), 1).rotary.table.shape[0] == 99

"""Section F: vocabulary and tokenizer."""

import pytest
import torch

from specatlas.drafting.draft_model import DraftModel
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.sampling import SamplingSettings
from specatlas.errors import VocabularyMismatch
from specatlas.measure.conformance.models import BASE, random_transformer
from specatlas.measure.conformance.subject import Watched
from tests.faults.world import decode, method, target
from tests.support.models import tiny_transformer


@pytest.mark.fault("F01", "F02", "F03")
@pytest.mark.parametrize("size", [60, 62, 189])
def test_another_vocabulary_is_refused_with_both_sizes(size):
    """However near the sizes are: ids would mean other tokens."""
    other = tiny_transformer(size, layers=1)
    head = SubsetHead(other.head.weight.detach(), torch.arange(size), size)
    with pytest.raises(VocabularyMismatch, match=rf"{size}.*61"):
        DraftModel(other, head, target().architecture.vocabulary)


@pytest.mark.fault("F01", "F05")
@pytest.mark.parametrize("settings", [SamplingSettings(1.0), SamplingSettings(1.0, top_k=3)])
def test_a_drafter_of_some_tokens_gives_the_others_no_mass(settings):
    """q covers the target's whole vocabulary, and is 0 outside the drafter's own tokens."""
    model = random_transformer(BASE, 3)
    drafter, _ = method("speculative_sampling", model, settings)
    allowed = set(drafter._draft_model.head.ids.tolist())
    assert 0 < len(allowed) < 61
    watched = Watched(drafter)
    decode(watched, model=model, rule="speculative_sampling", settings=settings)
    drafts = [draft for _, draft in watched.proposed if draft.nodes]
    assert drafts
    for draft in drafts:
        assert draft.q.shape[-1] == 61
        assert set(draft.q.sum((0, 1)).nonzero().flatten().tolist()) <= allowed
        assert set(draft.tokens.flatten().tolist()) <= allowed

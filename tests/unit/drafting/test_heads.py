"""Reduced heads, artifacts, and typed refusals of artifacts made for another target."""

import pytest
import torch

from specatlas.catalog.discovery import load_catalog
from specatlas.drafting.methods import import_part, untrained_artifacts
from specatlas.drafting.setup import Artifact, Setup
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.sampling import SamplingSettings
from specatlas.errors import MissingArtifact, VocabularyMismatch
from specatlas.project import find_project
from tests.support.models import tiny_transformer


def test_subset_head_maps_to_the_full_vocabulary():
    weight = torch.eye(3, 4)
    head = SubsetHead(weight, torch.tensor([2, 5, 9]), 12)
    logits = head.logits(torch.tensor([[0.0, 3.0, 1.0, 0.0]]))
    assert head.argmax(logits).tolist() == [5]
    q = head.distribution(logits, SamplingSettings(temperature=1.0))
    assert q.shape == (1, 12)
    assert q.sum() == pytest.approx(1.0)
    assert q.nonzero()[:, 1].tolist() == [2, 5, 9]
    values, ids = head.topk(logits, 2)
    assert ids.tolist() == [[5, 9]]
    assert torch.allclose(values.exp(), q[:, [5, 9]])


def test_ids_beyond_the_vocabulary_are_refused():
    with pytest.raises(VocabularyMismatch, match="12"):
        SubsetHead(torch.eye(3, 4), torch.tensor([2, 5, 12]), 12)


@pytest.mark.parametrize("slug", ["speculative_sampling", "medusa", "eagle", "eagle2"])
def test_an_artifact_of_another_target_is_refused(slug):
    catalog = load_catalog(find_project().methods)
    method = catalog[slug]
    artifacts = untrained_artifacts(catalog, method, tiny_transformer(61), 0)
    other = tiny_transformer(61, hidden=64)
    setup = Setup(other, SamplingSettings(), method.card.settings(), artifacts)
    with pytest.raises(VocabularyMismatch, match="train"):
        import_part(method, "method").build(setup)


def test_artifacts_round_trip(tmp_path):
    made = Artifact({"a": torch.arange(3)}, {"ranks": [0.5]})
    made.save(tmp_path)
    read = Artifact.load(tmp_path, "x")
    assert read.tensors["a"].tolist() == [0, 1, 2]
    assert read.metadata == {"ranks": [0.5]}
    Artifact({}, {"layers": [1]}).save(tmp_path)
    assert Artifact.load(tmp_path, "x").metadata == {"layers": [1]}


def test_a_missing_or_damaged_artifact_says_what_to_do(tmp_path):
    with pytest.raises(MissingArtifact, match="train eagle"):
        Artifact.load(tmp_path, "eagle")
    (tmp_path / "artifact.safetensors").write_bytes(b"not one")
    with pytest.raises(MissingArtifact, match="damaged"):
        Artifact.load(tmp_path, "eagle")

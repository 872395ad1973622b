"""A trained draft model as an artifact: its layers, the target's embeddings, a reduced head."""

from dataclasses import asdict, replace

import torch
from torch import Tensor

from specatlas.drafting.setup import Artifact
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.architecture import Architecture, RopeScaling
from specatlas.engine.layers import RMSNorm
from specatlas.engine.linear import Linear
from specatlas.engine.transformer import Transformer
from specatlas.errors import VocabularyMismatch


def draft_architecture(target: Architecture, layers: int) -> Architecture:
    """The target's shape with fewer layers; its embeddings are the target's own."""
    return replace(target, layers=layers)


def draft_artifact(model: Transformer, rows: Tensor, ids: Tensor) -> Artifact:
    """Layers and final norm of `model`, and its reduced head: rows of the target's head and their token ids."""
    weights = {
        name: tensor.detach().to(rows.dtype)
        for name, tensor in model.state_dict().items()
        if name.startswith(("layers.", "norm."))
    }
    return Artifact(weights | {"head": rows, "ids": ids}, {"architecture": asdict(model.architecture)})


def load_draft_model(artifact: Artifact, target: Transformer) -> tuple[Transformer, SubsetHead]:
    """The draft model, packed, sharing the target's embeddings.

    Raises:
        VocabularyMismatch: It was made for a target of another vocabulary or width.
    """
    fields = dict(artifact.metadata["architecture"])
    architecture = Architecture(**fields | {"rope_scaling": RopeScaling(**fields["rope_scaling"])})
    a = target.architecture
    if (architecture.vocabulary, architecture.hidden) != (a.vocabulary, a.hidden):
        raise VocabularyMismatch(
            f"The draft model was made for a vocabulary of {architecture.vocabulary} and a width of "
            f"{architecture.hidden}, the target has {a.vocabulary} and {a.hidden}; train it for this target."
        )
    with torch.device("meta"):
        model = Transformer(architecture)
    weights = {name: tensor.to(target.device, target.dtype) for name, tensor in artifact.tensors.items() if "." in name}
    model.load_state_dict(weights, strict=False, assign=True)
    model.embedding = target.embedding
    model.rotary = target.rotary
    model.requires_grad_(False).eval()
    for module in (*model.layers.modules(), model.norm):
        if isinstance(module, Linear | RMSNorm):
            module.pack()
    rows = artifact.tensors["head"].to(target.device, target.dtype)
    return model, SubsetHead(rows, artifact.tensors["ids"], a.vocabulary)

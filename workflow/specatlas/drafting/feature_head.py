"""EAGLE's feature-level autoregressive head (arXiv 2401.15077): one decoder layer over (feature, next token) pairs.

Position t takes the target's last hidden state f_t and the token x_{t+1}, and predicts f_{t+1}; the target's own head
turns that into a guess of x_{t+2}.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from specatlas.drafting.setup import Artifact
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.architecture import Architecture
from specatlas.engine.layers import DecoderLayer, RMSNorm
from specatlas.engine.linear import Linear
from specatlas.engine.rotary import Rotary
from specatlas.engine.transformer import Transformer
from specatlas.errors import VocabularyMismatch


class FeatureHead(nn.Module):
    """Fusing projection and one decoder layer.

    Args:
        architecture: The target's; the layer has the same shape.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = replace(architecture, layers=1)
        self.fuse = Linear(2 * architecture.hidden, architecture.hidden)
        self.layer = DecoderLayer(self.architecture)
        self.rotary = Rotary(architecture)

    @classmethod
    def initial(cls, target: Transformer, generator: torch.Generator) -> "FeatureHead":
        """Starts from copies: the fusion passes the feature on, and the layer is random and small."""
        head = cls(target.architecture)
        hidden = target.architecture.hidden
        with torch.no_grad():
            for name, parameter in head.named_parameters():
                if "norm" not in name:
                    parameter.normal_(0.0, 0.02, generator=generator)
            head.fuse.weight[:, hidden:] += torch.eye(hidden)
        return head

    def fused(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """Embeddings of the next tokens and features, `[batch, length, hidden]` each, to the layer's input."""
        result: Tensor = self.fuse(torch.cat((embeddings, features), -1))
        return result

    def forward_causal(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """Predicted features of whole sequences; differentiable."""
        rotation = self.rotary.consecutive(0, features.shape[1])
        return self.layer.forward_causal(self.fused(embeddings, features), rotation)


def load_feature_head(artifact: Artifact, target: Transformer) -> tuple[FeatureHead, SubsetHead]:
    """The trained head, packed, and the rows of the target's head that it drafts with.

    Raises:
        VocabularyMismatch: The artifact was made for a target of another vocabulary or width.
    """
    a = target.architecture
    made_for = (artifact.metadata["vocabulary"], artifact.metadata["hidden"])
    if made_for != (a.vocabulary, a.hidden):
        raise VocabularyMismatch(
            f"The feature head was made for a vocabulary of {made_for[0]} and a width of {made_for[1]}, the target has "
            f"{a.vocabulary} and {a.hidden}; train it for this target."
        )
    weights = {name: tensor for name, tensor in artifact.tensors.items() if name.startswith(("fuse.", "layer."))}
    head = FeatureHead(a)
    moved = {name: tensor.to(target.device, target.dtype) for name, tensor in weights.items()}
    head.load_state_dict(moved, assign=True)
    head.rotary = target.rotary
    head.requires_grad_(False).eval()
    for module in head.modules():
        if isinstance(module, Linear | RMSNorm):
            module.pack()
    rows = artifact.tensors["head"].to(target.device, target.dtype)
    return head, SubsetHead(rows, artifact.tensors["ids"], a.vocabulary)

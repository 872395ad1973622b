"""The target's own head for drafters that share it: whole, or its most frequent tokens only."""

from typing import Protocol

import torch
from torch import Tensor

from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.sampling import SamplingSettings, probabilities
from specatlas.engine.transformer import Transformer


class Head(Protocol):
    """What drafters ask of a head; `SubsetHead` is one too."""

    @property
    def parameter_count(self) -> int:
        """Weights that the head adds to the target's."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Normed hidden states `[..., hidden]` to `[..., tokens]`."""
        ...

    def argmax(self, logits: Tensor) -> Tensor:
        """Token ids of the largest logits, `[...]`."""
        ...

    def distribution(self, logits: Tensor, settings: SamplingSettings) -> Tensor:
        """The q over the target's whole vocabulary, `[..., vocabulary]`."""
        ...


class TargetHead:
    """The target's head as it is."""

    parameter_count = 0

    def __init__(self, target: Transformer) -> None:
        self._target = target

    def logits(self, hidden: Tensor) -> Tensor:
        """`[..., hidden]` to `[..., vocabulary]`."""
        result: Tensor = self._target.head(hidden)
        return result

    def argmax(self, logits: Tensor) -> Tensor:
        """Token ids of the largest logits, `[...]`."""
        return logits.max(-1).indices

    def distribution(self, logits: Tensor, settings: SamplingSettings) -> Tensor:
        """The q over the target's vocabulary, `[..., vocabulary]`."""
        return probabilities(logits, settings)


def shared_head(target: Transformer, ranked: Tensor, size: int) -> Head:
    """The target's head over its `size` most frequent tokens.

    Args:
        target: The target.
        ranked: Token ids, the most frequent first.
        size: Tokens kept; 0 for all, which copies nothing.
    """
    if size == 0 or size >= target.architecture.vocabulary:
        return TargetHead(target)
    # In rising order, so that the first of equal logits is the one that the whole head would choose.
    ids = ranked[:size].long().sort().values
    return SubsetHead(head_rows(target, ids), ids, target.architecture.vocabulary)


def head_rows(target: Transformer, ids: Tensor) -> Tensor:
    """Rows of the head, `[ids, hidden]`, whether it is packed or not."""
    ids = ids.to(target.device)
    if target.architecture.tied_embeddings:
        return target.embedding[ids].detach()
    if target.head.weight.numel():
        return target.head.weight[ids].detach()
    # A packed weight cannot be indexed, but unit vectors go through the layer unrounded.
    unit = torch.eye(target.architecture.hidden, dtype=target.dtype, device=target.device)
    rows: Tensor = target.head(unit)
    return rows[:, ids].T.contiguous()

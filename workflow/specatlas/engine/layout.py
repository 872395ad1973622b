"""How a draft becomes one target pass: root, nodes and probes side by side, with positions and mask."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specatlas.engine.draft import Draft, Topology


@dataclass(frozen=True)
class Layout:
    """Inputs of a verification pass.

    Attributes:
        tokens: `[batch, width]`, width = 1 + nodes + probes; the root (last committed token) first.
        positions: `[batch, width]` position ids, or None for consecutive ones.
        mask: bool `[batch or 1, width, width]`, or None for causal.
    """

    tokens: Tensor
    positions: Tensor | None
    mask: Tensor | None


def lay_out(draft: Draft, roots: Sequence[int], lengths: Sequence[int]) -> Layout:
    """Plans the pass that scores `draft` after the committed tokens.

    Args:
        draft: For each row.
        roots: Last committed token of each row; its keys are not in the cache yet.
        lengths: Committed slots of each row: the root's position.
    """
    device = draft.tokens.device
    root = torch.tensor(roots, dtype=torch.long, device=device).unsqueeze(1)
    tokens = torch.cat((root, draft.tokens), 1) if draft.nodes else root
    if draft.parents is None and draft.probes is None:
        return Layout(tokens, None, None)
    topology = _topology(draft)
    offsets, mask = topology.depths, topology.ancestors
    if draft.probes is not None:
        tokens = torch.cat((tokens, draft.probes.tokens), 1)
        offsets = _join(offsets, draft.probes.offsets, 1)
        hidden = mask.new_zeros((mask.shape[0], mask.shape[1], draft.probes.count))
        mask = _join(torch.cat((mask, hidden), 2), draft.probes.visible, 1)
    starts = torch.tensor(lengths, dtype=torch.long, device=device).unsqueeze(1)
    return Layout(tokens, starts + offsets, mask)


def _topology(draft: Draft) -> Topology:
    if draft.topology is not None:
        return draft.topology
    if draft.parents is not None:
        return Topology.of(draft.parents)
    size = draft.nodes + 1
    causal = torch.ones((1, size, size), dtype=torch.bool, device=draft.tokens.device).tril()
    return Topology(causal, torch.arange(size, device=draft.tokens.device).unsqueeze(0))


def _join(first: Tensor, second: Tensor, dimension: int) -> Tensor:
    """Concatenates along `dimension`, repeating a batch of one to fit the other."""
    batch = max(first.shape[0], second.shape[0])
    parts = [part.expand(batch, *part.shape[1:]) for part in (first, second)]
    return torch.cat(parts, dimension)

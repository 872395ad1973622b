"""Where a pass writes and what it sees: computed once a pass, shared by all layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specatlas.engine.cache import KVCache


@dataclass(frozen=True)
class Span:
    """One pass over `width` new positions of each row.

    Attributes:
        rotation: complex64 `[batch or 1, width, 1, head_dim / 2]`.
        start: First slot written, where all rows agree; else None.
        slots: `[batch, width]` slots written, where rows differ.
        stop: Number of slots visible to some row.
        bias: `[batch or 1, 1, 1, width, columns]` in fp32, added to the scores of the last `columns` visible slots:
            0 where visible, -inf where not; None where everything is visible.
    """

    rotation: Tensor
    start: int | None
    slots: Tensor | None
    stop: int
    bias: Tensor | None


def plan_span(
    table: Tensor,
    cache: KVCache,
    width: int,
    positions: Tensor | None = None,
    mask: Tensor | None = None,
) -> Span:
    """Plans a pass that writes `width` slots after each row's length.

    Args:
        table: Rotations by position, complex64 `[context, head_dim / 2]`.
        cache: The cache written; it grows if it must.
        width: New positions a row; rows with fewer pad at the end, and what lies there is dropped by `cache.keep`.
        positions: Position ids `[batch or 1, width]`; None for consecutive ones after each row's length.
        mask: bool `[batch or 1, width, columns]`: which of the last `columns` slots, the new ones included, each new
            position sees; all slots before them are visible. More columns than `width` let a pass see only some of
            the scratch that earlier passes wrote. None for causal.
    """
    cache.reserve(width)
    lengths = cache.lengths
    uniform = min(lengths) == max(lengths)
    if positions is None and uniform:
        rotation = table[None, lengths[0] : lengths[0] + width, None]
    else:
        if positions is None:
            positions = _column(lengths, cache.device) + torch.arange(width, device=cache.device)
        # Near the end of the context, padding and probes may point beyond it; no token of the answer does.
        rotation = table[positions.clamp(max=len(table) - 1)].unsqueeze(2)
    if uniform:
        bias = None if width == 1 and mask is None else _bias(_new_mask(width, mask, cache.device))
        return Span(rotation, lengths[0], None, lengths[0] + width, bias)
    slots = _column(lengths, cache.device) + torch.arange(width, device=cache.device)
    return Span(rotation, None, slots, max(lengths) + width, _ragged_bias(lengths, width, mask, cache.device))


def _column(values: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).unsqueeze(1)


def _new_mask(width: int, mask: Tensor | None, device: torch.device) -> Tensor:
    if mask is not None:
        return mask
    return torch.ones(1, width, width, dtype=torch.bool, device=device).tril()


def _bias(visible: Tensor) -> Tensor:
    zeros = torch.zeros(visible.shape, dtype=torch.float32, device=visible.device)
    return zeros.masked_fill_(~visible, float("-inf"))[:, None, None]


def _ragged_bias(lengths: Sequence[int], width: int, mask: Tensor | None, device: torch.device) -> Tensor:
    """Rows end at different slots, so each row's mask lies at another place of the common window."""
    mask = _new_mask(width, mask, device)
    mask = mask.expand(len(lengths), -1, -1)
    older = mask.shape[2] - width
    window = torch.arange(min(lengths) - older, max(lengths) + width, device=device)
    offsets = window - _column(lengths, device) + older
    index = offsets.clamp(0, mask.shape[2] - 1)[:, None, :].expand(-1, width, -1)
    inside = ((offsets >= 0) & (offsets < mask.shape[2]))[:, None, :]
    visible = (offsets < 0)[:, None, :] | (inside & mask.gather(2, index))
    return _bias(visible)

"""Where a pass writes and what it sees: computed once a pass, shared by all layers."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specatlas.engine.cache import KVCache
from specatlas.engine.rotary import Rotary


@dataclass(frozen=True)
class Span:
    """One pass over `width` new positions of each row.

    Attributes:
        rotation: complex64 `[batch or 1, width, heads + 2 kv_heads, head_dim / 2]`, see `Rotary`.
        keys: Visible keys by layer, transposed for the product: `[batch * kv_heads, head_dim, slots]`.
        values: Visible values by layer, `[batch * kv_heads, slots, head_dim]`.
        bias: `[batch or 1, 1, 1, width, columns]` in fp32, added to the scores of the last `columns` visible slots:
            0 where visible, -inf where not; None where everything is visible.
        fresh: Where all rows write the same slots: views of them by layer, `[batch, width, 2, kv_heads, head_dim]`.
        slots: Where rows differ: the slots written, `[batch, width]`.
        rows: With `slots`: the cache by layer, `[2, batch, kv_heads, capacity, head_dim]`.
    """

    rotation: Tensor
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    bias: Tensor | None
    fresh: tuple[Tensor, ...] | None
    slots: Tensor | None
    rows: tuple[Tensor, ...] | None

    def write(self, layer: int, new: Tensor) -> None:
        """Writes new keys and values `[batch, width, 2, kv_heads, head_dim]` of a layer."""
        if self.fresh is not None:
            self.fresh[layer].copy_(new)
            return
        assert self.slots is not None
        assert self.rows is not None
        batch = torch.arange(len(self.slots), device=new.device).unsqueeze(1)
        self.rows[layer][:, batch, :, self.slots] = new.to(self.rows[layer].dtype)


def plan_span(
    rotary: Rotary,
    cache: KVCache,
    width: int,
    positions: Tensor | None = None,
    mask: Tensor | None = None,
) -> Span:
    """Plans a pass that writes `width` slots after each row's length.

    Args:
        rotary: Rotations by position.
        cache: The cache written; it grows if it must.
        width: New positions a row; rows with fewer pad at the end, and what lies there is dropped by `cache.keep`.
        positions: Position ids `[batch or 1, width]`; None for consecutive ones after each row's length.
        mask: bool `[batch or 1, width, columns]`: which of the last `columns` slots, the new ones included, each new
            position sees; all slots before them are visible. More columns than `width` let a pass see only some of
            the scratch that earlier passes wrote. None for causal.
    """
    cache.reserve(width)
    lengths, device = cache.lengths, cache.device
    uniform = min(lengths) == max(lengths)
    if positions is None and uniform:
        rotation = rotary.consecutive(lengths[0], width)
    else:
        if positions is None:
            positions = _column(lengths, device) + torch.arange(width, device=device)
        rotation = rotary.at(positions)
    # All layers at once: making a view costs as much as a small product.
    visible = cache.store[:, :, :, : max(lengths) + width]
    keys, values = visible[:, 0].transpose(2, 3).unbind(0), visible[:, 1].unbind(0)
    by_row = cache.store.unflatten(2, (cache.batch, -1))
    if uniform:
        bias = None if width == 1 and mask is None else _bias(_new_mask(width, mask, device))
        written = by_row[:, :, :, :, lengths[0] : lengths[0] + width].permute(0, 2, 4, 1, 3, 5)
        return Span(rotation, keys, values, bias, written.unbind(0), None, None)
    slots = _column(lengths, device) + torch.arange(width, device=device)
    bias = _ragged_bias(lengths, width, mask, device)
    return Span(rotation, keys, values, bias, None, slots, by_row.unbind(0))


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

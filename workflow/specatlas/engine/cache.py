"""The KV cache: preallocated, one length a row, rolled back by moving lengths.

Positions are always given explicitly, so a slot's index and the position of the token in it may differ; that is what
lets one cache hold a tree's branches, a window of a longer context, or a draft that is thrown away.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from specatlas.engine.architecture import Architecture


class _Storage:
    """Tensors shared by a cache and its branches; grows when a pass needs more room than was foreseen."""

    def __init__(self, store: Tensor) -> None:
        self.bind(store)

    def bind(self, store: Tensor) -> None:
        self.store = store
        self.keys, self.values = list(store[:, 0]), list(store[:, 1])

    @property
    def capacity(self) -> int:
        return self.store.shape[3]

    def grow(self, capacity: int) -> None:
        # Zeros, not garbage: masked slots of a ragged batch are multiplied by probability 0, and 0 * NaN is NaN.
        larger = self.store.new_zeros((*self.store.shape[:3], capacity, self.store.shape[4]))
        larger[:, :, :, : self.capacity] = self.store
        self.bind(larger)


class KVCache:
    """Keys and values of every layer for a batch of sequences.

    Attributes:
        lengths: Committed slots of each row. Slots beyond a row's length are scratch: passes write there, and `keep`
            or `advance` makes some of them permanent.
    """

    def __init__(
        self, architecture: Architecture, batch: int, capacity: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        shape = (architecture.layers, 2, batch * architecture.kv_heads, capacity, architecture.head_dim)
        self._storage = _Storage(torch.zeros(shape, dtype=dtype, device=device))
        self._kv_heads = architecture.kv_heads
        self.lengths = [0] * batch

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    @property
    def store(self) -> Tensor:
        """Everything: `[layers, 2 (keys, values), batch * kv_heads, capacity, head_dim]`; replaced when it grows."""
        return self._storage.store

    @property
    def keys(self) -> list[Tensor]:
        """Keys by layer, `[batch * kv_heads, capacity, head_dim]`, already rotated."""
        return self._storage.keys

    @property
    def values(self) -> list[Tensor]:
        """Values by layer, `[batch * kv_heads, capacity, head_dim]`."""
        return self._storage.values

    @property
    def device(self) -> torch.device:
        """Where the cache lies."""
        return self._storage.store.device

    def reset(self) -> None:
        """Forgets everything."""
        self.lengths = [0] * self.batch

    def branch(self) -> "KVCache":
        """A second set of lengths over the same storage: what it writes is scratch to this cache."""
        return self._sharing(self._storage, list(self.lengths))

    def _sharing(self, storage: _Storage, lengths: list[int]) -> "KVCache":
        other = object.__new__(KVCache)
        other._storage, other._kv_heads, other.lengths = storage, self._kv_heads, lengths
        return other

    def reserve(self, width: int) -> None:
        """Makes sure that every row can take `width` more slots."""
        needed = max(self.lengths) + width
        if needed > self._storage.capacity:
            self._storage.grow(max(needed, self._storage.capacity * 5 // 4))

    def advance(self, widths: Sequence[int]) -> None:
        """Commits the next `widths[row]` scratch slots of each row."""
        self.lengths = [length + width for length, width in zip(self.lengths, widths, strict=True)]

    def rewind(self, lengths: Sequence[int]) -> None:
        """Rolls each row back to `lengths[row]` committed slots.

        Raises:
            ValueError: A row would grow.
        """
        if any(new > old or new < 0 for new, old in zip(lengths, self.lengths, strict=True)):
            raise ValueError(f"Cannot rewind lengths {self.lengths} to {list(lengths)}.")
        self.lengths = list(lengths)

    def keep(self, offsets: Sequence[Sequence[int]]) -> None:
        """Commits chosen scratch slots: for each row, offsets from its length in rising order; the rest is dropped."""
        for row, chosen in enumerate(offsets):
            start = self.lengths[row]
            first_gap = next((rank for rank, offset in enumerate(chosen) if offset != rank), None)
            if first_gap is not None:
                source = torch.tensor([start + offset for offset in chosen[first_gap:]], device=self.device)
                self._row(row)[:, :, :, start + first_gap : start + len(chosen)] = self._row(row)[:, :, :, source]
            self.lengths[row] = start + len(chosen)

    def _row(self, row: int) -> Tensor:
        return self._storage.store[:, :, row * self._kv_heads : (row + 1) * self._kv_heads]

    def view(self, slots: Sequence[Sequence[int]], *, room: int) -> "KVCache":
        """A new cache with copies of chosen slots of each row (sink + window, retrieved chunks), and room to write.

        Keys keep the rotation of their original positions.
        """
        shape = list(self._storage.store.shape)
        shape[3] = max(len(chosen) for chosen in slots) + room
        other = self._sharing(_Storage(self._storage.store.new_zeros(shape)), [len(chosen) for chosen in slots])
        for row, chosen in enumerate(slots):
            index = torch.tensor(list(chosen), dtype=torch.long, device=self.device)
            other._row(row)[:, :, :, : len(chosen)] = self._row(row)[:, :, :, index]  # noqa: SLF001 same class
        return other

"""The KV cache: preallocated, one length a row, rolled back by moving lengths.

Positions are always given explicitly, so a slot's index and the position of the token in it may differ; that is what
lets one cache hold a tree's branches, a window of a longer context, or a draft that is thrown away.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from specatlas.engine.architecture import Architecture
from specatlas.errors import ContextOverflow


class KVCache:
    """Keys and values of every layer for a batch of sequences.

    Attributes:
        lengths: Committed slots of each row. Slots beyond a row's length are scratch: passes write there, and `keep`
            makes some of them permanent.
        keys, values: `[layers][batch * kv_heads, capacity, head_dim]` views.
    """

    def __init__(
        self, architecture: Architecture, batch: int, capacity: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.batch, self.capacity = batch, capacity
        self.kv_heads, self.head_dim = architecture.kv_heads, architecture.head_dim
        shape = (2, architecture.layers, batch * self.kv_heads, capacity, self.head_dim)
        # Zeros, not garbage: masked slots of a ragged batch are multiplied by probability 0, and 0 * NaN is NaN.
        self._store = torch.zeros(shape, dtype=dtype, device=device)
        self._bind()
        self.lengths = [0] * batch

    def _bind(self) -> None:
        self.keys, self.values = list(self._store[0]), list(self._store[1])

    @property
    def device(self) -> torch.device:
        """Where the cache lies."""
        return self._store.device

    def reset(self) -> None:
        """Forgets everything."""
        self.lengths = [0] * self.batch

    def branch(self) -> "KVCache":
        """A second set of lengths over the same storage: what it writes is scratch to this cache."""
        other = object.__new__(KVCache)
        other.__dict__.update(self.__dict__)
        other.lengths = list(self.lengths)
        return other

    def reserve(self, width: int) -> None:
        """Checks that every row can take `width` more slots.

        Raises:
            ContextOverflow: A row is full.
        """
        if max(self.lengths) + width > self.capacity:
            raise ContextOverflow(
                f"The KV cache holds {self.capacity} tokens, but {max(self.lengths)} + {width} are needed; "
                "shorten the prompt or the answer."
            )

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
        return self._store[:, :, row * self.kv_heads : (row + 1) * self.kv_heads]

    def view(self, slots: Sequence[Sequence[int]], *, capacity: int) -> "KVCache":
        """A new cache with copies of chosen slots of each row (sink + window, retrieved chunks), then room to write.

        Keys keep the rotation of their original positions.
        """
        other = object.__new__(KVCache)
        other.__dict__.update(self.__dict__)
        other.capacity = capacity
        shape = (*self._store.shape[:3], capacity, self.head_dim)
        other._store = torch.zeros(shape, dtype=self._store.dtype, device=self.device)
        other._bind()
        for row, chosen in enumerate(slots):
            index = torch.tensor(list(chosen), dtype=torch.long, device=self.device)
            other._row(row)[:, :, :, : len(chosen)] = self._row(row)[:, :, :, index]
        other.lengths = [len(chosen) for chosen in slots]
        return other

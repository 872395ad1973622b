"""The two-dimensional window: columns are future positions, levels are past Jacobi iterations."""

import torch
from torch import Tensor

from specatlas.engine.draft import Probes


class Window:
    """Levels of guesses for the positions after the root.

    Column i of level 0 is a guess for the token i places after the root; column 0 is the root itself and is not
    stored. Column i of level l stands l + i places after the root and was computed from column i of the levels below
    and from level 0 up to column i, so these tokens read as one text. A pass over the window computes the level above
    the top one, which completes an n-gram in every column.

    The window starts with level 0 alone, long enough to lose a column to every level that it gains.

    Args:
        guesses: First guesses of level 0, `[batch, columns + ngram - 3]`.
        columns: Columns of the full window, W.
        ngram: N; the full window has N - 1 levels.
    """

    def __init__(self, guesses: Tensor, columns: int, ngram: int) -> None:
        self.levels = [guesses]
        self._columns, self._ngram = columns, ngram
        self._geometry: dict[int, tuple[Tensor, Tensor]] = {}
        self._visible: dict[tuple[int, int], Tensor] = {}

    @property
    def full(self) -> bool:
        """Whether a pass completes n-grams."""
        return len(self.levels) == self._ngram - 1

    @property
    def width(self) -> int:
        """Columns now, the root's included."""
        return self.levels[0].shape[1] + 1

    def probes(self, nodes: int) -> Probes | None:
        """The window's tokens as probes beside a draft of `nodes` nodes; None for a window of the root alone."""
        tokens = torch.cat(self.levels, 1)
        if tokens.shape[1] == 0:
            return None
        return Probes(tokens, self._offsets_and_mask()[0], self._sight(nodes))

    def top(self, root: Tensor, probes: Tensor | None) -> Tensor:
        """Picks what the model says after each column of the top level.

        Args:
            root: Logits after the root, `[batch, 1, vocabulary]`.
            probes: Logits after the probes, `[batch, probes, vocabulary]`, or None.

        Returns:
            The likeliest tokens, `[batch, width]`.
        """
        logits = root if probes is None else probes
        if probes is not None and len(self.levels) == 1:
            logits = torch.cat((root, probes), 1)
        # Not argmax: on a CPU it is 40 times slower in bf16.
        return logits[:, -self.width :].max(-1).indices

    def ngrams(self, roots: Tensor, top: Tensor) -> Tensor:
        """The n-gram of every column of a full window, `[batch, columns, ngram]`."""
        first = torch.cat((roots, self.levels[0]), 1)
        return torch.stack((first, *self.levels[1:], top), 2)

    def advance(self, top: Tensor) -> None:
        """Puts the new level on top and moves on by one position; a full window drops its oldest level."""
        levels = [*self.levels, top]
        if self.full:
            # The real token takes the place of column 0 of what is level 0 now.
            self.levels = [levels[1][:, 1:], *levels[2:]]
        else:
            self.levels = [level[:, 1:] for level in levels]

    def _sight(self, nodes: int) -> Tensor:
        """Which of root, nodes and probes each probe sees, `[1, probes, 1 + nodes + probes]`."""
        key = (len(self.levels), nodes)
        if key not in self._visible:
            mask = self._offsets_and_mask()[1]
            none = mask.new_zeros((1, mask.shape[1], nodes))
            self._visible[key] = torch.cat((mask[:, :, :1], none, mask[:, :, 1:]), 2)
        return self._visible[key]

    def _offsets_and_mask(self) -> tuple[Tensor, Tensor]:
        """Offsets `[1, probes]` and mask over root and probes `[1, probes, 1 + probes]`, computed once a shape."""
        count = len(self.levels)
        if count not in self._geometry:
            device = self.levels[0].device
            level = torch.arange(count, device=device).repeat_interleave(self.width)
            column = torch.arange(self.width, device=device).repeat(count)
            text = (level == 0) & (column <= column[:, None])
            own = (level > 0) & (level <= level[:, None]) & (column == column[:, None])
            self._geometry[count] = (level + column)[None, 1:], (text | own)[None, 1:]
        return self._geometry[count]

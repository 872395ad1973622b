"""Trees whose shape is fixed before decoding: which rank of the drafter's guesses each node holds."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specatlas.engine.draft import Topology


@dataclass(frozen=True)
class StaticTree:
    """A tree by the ranks along each node's path: `(0, 2)` is the third guess after the first guess.

    Paths are listed parents first, siblings by rank.
    """

    paths: tuple[tuple[int, ...], ...]

    @cached_property
    def parents(self) -> Tensor:
        """Parent of each node, -1 for the root; `[nodes]`."""
        places = {path: node for node, path in enumerate(self.paths)}
        return torch.tensor([places.get(path[:-1], -1) for path in self.paths], dtype=torch.long)

    @cached_property
    def depths(self) -> list[int]:
        """Depth of each node; 1 for the root's children."""
        return [len(path) for path in self.paths]

    @cached_property
    def ranks(self) -> Tensor:
        """Rank of each node among its parent's guesses; `[nodes]`."""
        return torch.tensor([path[-1] for path in self.paths], dtype=torch.long)

    @cached_property
    def topology(self) -> Topology:
        """Ancestors and depths, shared by all rows."""
        return Topology.of(self.parents.unsqueeze(0))

    @property
    def depth(self) -> int:
        """Deepest node."""
        return max(self.depths, default=0)

    def level(self, depth: int) -> list[int]:
        """Nodes at this depth."""
        return [node for node, own in enumerate(self.depths) if own == depth]


def grow_static_tree(acceptance: Sequence[Sequence[float]], nodes: int) -> StaticTree:
    """The tree of `nodes` nodes with the largest expected number of accepted tokens, by best-first growth.

    A path's probability is taken as the product of its ranks' acceptance (Medusa, arXiv 2401.10774, section 2.3.3), so
    adding the likeliest node next is optimal and every node's parent comes before it.

    Args:
        acceptance: `acceptance[d][r]` is the probability that guess r at depth d + 1 is right, given its parent is; the
            number of rows bounds the depth.
        nodes: Number of nodes; fewer where the table holds no more.
    """
    chosen: list[tuple[int, ...]] = []
    heap: list[tuple[float, tuple[int, ...]]] = []

    def offer(path: tuple[int, ...], probability: float) -> None:
        depth, rank = len(path) - 1, path[-1]
        if depth < len(acceptance) and rank < len(acceptance[depth]):
            heapq.heappush(heap, (-probability * acceptance[depth][rank], path))

    offer((0,), 1.0)
    above: dict[tuple[int, ...], float] = {(): 1.0}
    while heap and len(chosen) < nodes:
        negative, path = heapq.heappop(heap)
        chosen.append(path)
        above[path] = -negative
        offer((*path, 0), -negative)
        offer((*path[:-1], path[-1] + 1), above[path[:-1]])
    return StaticTree(tuple(sorted(chosen, key=lambda path: (len(path), path))))

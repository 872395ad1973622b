"""A draft: a tree of proposed tokens for each row, and probes that ride along in the same target pass."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specatlas.errors import InvalidDraft


@dataclass(frozen=True)
class Topology:
    """Who descends from whom; the root is index 0, node i is index i + 1.

    Attributes:
        ancestors: bool `[batch or 1, 1 + nodes, 1 + nodes]`; row i marks i itself and everything above it.
        depths: `[batch or 1, 1 + nodes]`, tokens below the root.
    """

    ancestors: Tensor
    depths: Tensor

    @classmethod
    def of(cls, parents: Tensor) -> "Topology":
        """From parent indices `[batch, nodes]` (-1: the root), by repeated squaring of the parent relation."""
        batch, nodes = parents.shape
        relation = torch.eye(nodes + 1, device=parents.device).repeat(batch, 1, 1)
        relation[:, 1:].scatter_(2, (parents + 1).unsqueeze(2), 1.0)
        reached = 1
        while reached < nodes:
            relation = (relation @ relation).clamp_(max=1.0)
            reached *= 2
        ancestors = relation > 0
        return cls(ancestors, ancestors.sum(-1) - 1)


@dataclass(frozen=True)
class Probes:
    """Extra query positions scored in the same pass and never accepted.

    Attributes:
        tokens: `[batch, probes]` ids (ignored where `embeddings` is given).
        offsets: `[batch or 1, probes]` positions relative to the root's; beyond the target's context, its last one.
        visible: bool `[batch or 1, probes, 1 + nodes + probes]`: which of root, nodes and probes each probe sees.
            Every probe sees the committed context; no node sees a probe.
        embeddings: `[batch or 1, probes, hidden]` input embeddings of the probes' own, or None.
    """

    tokens: Tensor
    offsets: Tensor
    visible: Tensor
    embeddings: Tensor | None = None

    @property
    def count(self) -> int:
        """Probe positions a row."""
        return self.tokens.shape[1]


@dataclass(frozen=True)
class Draft:
    """What a drafter proposes for one verification step.

    Nodes are listed parents first; siblings are tried in their order. Rows with fewer nodes are padded at the end.

    Attributes:
        tokens: `[batch, nodes]` ids.
        counts: Nodes of each row; 0 is a legal draft, the step then emits one token.
        parents: `[batch, nodes]` node indices, -1 for the root; None for a chain.
        q: `[batch, distributions, vocabulary]` fp32: the distributions that nodes were sampled from, exactly as
            sampled. None: every node is a deterministic pick (one-hot).
        q_rows: `[batch, nodes]`: which distribution each node came from; several nodes of merged branches may share
            one. None: node i came from distribution i.
        topology: Of `parents`, where the drafter has it at hand.
        probes: Or None.
    """

    tokens: Tensor
    counts: Sequence[int]
    parents: Tensor | None = None
    q: Tensor | None = None
    q_rows: Tensor | None = None
    topology: Topology | None = None
    probes: Probes | None = None
    _host: dict[str, list[list[int]]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def nodes(self) -> int:
        """Nodes of the longest row, padding included."""
        return self.tokens.shape[1]

    @classmethod
    def empty(cls, batch: int, device: torch.device, probes: Probes | None = None) -> "Draft":
        """No nodes for any row."""
        return cls(torch.empty((batch, 0), dtype=torch.long, device=device), [0] * batch, probes=probes)

    @classmethod
    def chains(cls, rows: Sequence[Sequence[int]], device: torch.device) -> "Draft":
        """Deterministic chains from token lists, one a row."""
        width = max(len(row) for row in rows)
        padded = [[*row, *[0] * (width - len(row))] for row in rows]
        return cls(
            torch.tensor(padded, dtype=torch.long, device=device).view(len(rows), width), [len(row) for row in rows]
        )

    def remember(self, tokens: list[list[int]], parents: list[list[int]] | None) -> None:
        """Keeps what was read back together with a rule's decision, so that nothing is read from the device twice."""
        self._host["tokens"] = tokens
        if parents is not None:
            self._host["parents"] = parents

    def token_lists(self) -> list[list[int]]:
        """Tokens of each row, padding included, as lists."""
        if "tokens" not in self._host:
            self._host["tokens"] = self.tokens.tolist()
        return self._host["tokens"]

    def parent_lists(self) -> list[list[int]]:
        """Parents of each row's own nodes, as lists."""
        if self.parents is None:
            return [list(range(-1, count - 1)) for count in self.counts]
        if "parents" not in self._host:
            self._host["parents"] = self.parents.tolist()
        return [row[:count] for row, count in zip(self._host["parents"], self.counts, strict=True)]

    def check(self, vocabulary: int) -> None:
        """Checks the contract.

        Raises:
            InvalidDraft: Says which part of it is broken.
        """
        batch, nodes = self.tokens.shape
        if len(self.counts) != batch or any(not 0 <= count <= nodes for count in self.counts):
            raise InvalidDraft(f"counts {list(self.counts)} do not fit tokens of shape {batch}×{nodes}.")
        if nodes and (int(self.tokens.min()) < 0 or int(self.tokens.max()) >= vocabulary):
            raise InvalidDraft(f"a draft token lies outside the target's vocabulary of {vocabulary}.")
        for row in self.parent_lists():
            if any(not -1 <= parent < node for node, parent in enumerate(row)):
                raise InvalidDraft(f"parents {row} must name earlier nodes or -1.")
        if self.q is not None and self.q.shape[::2] != (batch, vocabulary):
            raise InvalidDraft(f"q has shape {tuple(self.q.shape)}, expected ({batch}, distributions, {vocabulary}).")

    def clipped(self, depths: Sequence[int]) -> "Draft":
        """Without the nodes of each row that lie deeper than `depths[row]`."""
        if self.nodes <= min(depths):
            return self
        if self.parents is None:
            counts = [min(count, depth) for count, depth in zip(self.counts, depths, strict=True)]
            if max(counts) == self.nodes:
                return replace(self, counts=counts)
            kept = [list(range(count)) for count in counts]
        else:
            kept = [self._shallow(row, depth) for row, depth in zip(self.parent_lists(), depths, strict=True)]
            if all(len(nodes) == count for nodes, count in zip(kept, self.counts, strict=True)):
                return self
        return self._select(kept)

    @staticmethod
    def _shallow(parents: list[int], limit: int) -> list[int]:
        depths: list[int] = []
        for parent in parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return [node for node, depth in enumerate(depths) if depth <= limit]

    def _select(self, kept: list[list[int]]) -> "Draft":
        width = max(len(nodes) for nodes in kept)
        device = self.tokens.device
        index = torch.tensor([[*nodes, *[0] * (width - len(nodes))] for nodes in kept], dtype=torch.long, device=device)
        index = index.view(len(kept), width)
        parents = None
        if self.parents is not None:
            rows = []
            for nodes, old in zip(kept, self.parent_lists(), strict=True):
                renamed = {node: place for place, node in enumerate(nodes)} | {-1: -1}
                rows.append([*(renamed[old[node]] for node in nodes), *[-1] * (width - len(nodes))])
            parents = torch.tensor(rows, dtype=torch.long, device=device).view(len(kept), width)
        q_rows = index if self.q_rows is None else self.q_rows.gather(1, index)
        probes = None if self.probes is None else self._probes_on(index)
        return Draft(
            self.tokens.gather(1, index), [len(nodes) for nodes in kept], parents, self.q, q_rows, None, probes
        )

    def _probes_on(self, index: Tensor) -> Probes:
        """The probes, seeing only the nodes in `index`."""
        assert self.probes is not None
        visible = self.probes.visible.expand(len(index), -1, -1)
        count = self.probes.count
        nodes = visible[:, :, 1 : 1 + self.nodes].gather(2, index[:, None].expand(-1, count, -1))
        seen = torch.cat((visible[:, :, :1], nodes, visible[:, :, 1 + self.nodes :]), 2)
        return replace(self.probes, visible=seen)

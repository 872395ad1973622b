"""Candidate continuations merged by common prefix, so that a token that several of them share is verified once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from specatlas.engine.draft import Draft, Probes


@dataclass
class Trie:
    """A row's draft tree, parents first; siblings keep the order in which they came.

    Attributes:
        tokens: Token of each node.
        parents: Node index of each node's parent, -1 for the root.
    """

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, candidates: Iterable[Sequence[int]]) -> "Trie":
        """Merges candidates, the most promising first."""
        trie = cls()
        nodes: dict[tuple[int, int], int] = {}
        for candidate in candidates:
            parent = -1
            for token in candidate:
                node = nodes.setdefault((parent, token), len(trie.tokens))
                if node == len(trie.tokens):
                    trie.tokens.append(token)
                    trie.parents.append(parent)
                parent = node
        return trie


def draft_of(tries: Sequence[Trie], device: torch.device, probes: Probes | None = None) -> Draft:
    """One deterministic draft from a trie a row."""
    width = max(len(trie.tokens) for trie in tries)
    if width == 0:
        return Draft.empty(len(tries), device, probes)
    padding = [width - len(trie.tokens) for trie in tries]
    tokens = [[*trie.tokens, *[0] * count] for trie, count in zip(tries, padding, strict=True)]
    parents = [[*trie.parents, *[-1] * count] for trie, count in zip(tries, padding, strict=True)]
    both = torch.tensor([tokens, parents], dtype=torch.long, device=device)
    return Draft(both[0], [len(trie.tokens) for trie in tries], both[1], probes=probes)

"""Growing a tree where the drafter is confident: levels of the likeliest nodes, then the best of all of them."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from specatlas.engine.draft import Draft


@dataclass
class GrowingTree:
    """Nodes drafted so far, level by level, with the log-probability of each node's path.

    The value of a node is the product of the draft probabilities on its path, an estimate of its chance of being
    accepted (EAGLE-2, arXiv 2406.16858, section 4; OPT-Tree, arXiv 2406.17276, eq. 2). Values fall along a path, so the
    best nodes of all levels always form a tree.
    """

    tokens: list[Tensor] = field(default_factory=list)
    parents: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Nodes of each row."""
        return sum(level.shape[1] for level in self.tokens)

    def add_level(self, tokens: Tensor, parents: Tensor, values: Tensor) -> None:
        """Adds nodes: ids, indices of their parents among all nodes (-1: root), path log-probabilities.

        All `[batch, level]`.
        """
        self.tokens.append(tokens)
        self.parents.append(parents)
        self.values.append(values)

    def best(self, nodes: int, budgets: list[int]) -> Draft:
        """The `nodes` most valuable nodes of each row, none deeper than the row's budget, as a draft."""
        tokens, parents = torch.cat(self.tokens, 1), torch.cat(self.parents, 1)
        limits = torch.tensor(budgets, device=tokens.device).unsqueeze(1)
        within = [values.where(limits > level, float("-inf")) for level, values in enumerate(self.values)]
        values = torch.cat(within, 1)
        count = min(nodes, tokens.shape[1])
        # Levels are listed parents first, so rising indices keep that order. A stable sort lets a parent win a tie
        # against its child (probability 1 adds nothing), which keeps the choice a tree.
        order = torch.sort(values, dim=1, descending=True, stable=True).indices[:, :count]
        kept = order.sort(1).values
        place = torch.full((tokens.shape[0], tokens.shape[1] + 1), -1, dtype=torch.long, device=tokens.device)
        place.scatter_(1, kept + 1, torch.arange(count, device=tokens.device).expand(len(kept), -1))
        new_parents = place.gather(1, parents.gather(1, kept) + 1)
        sizes = [sum(level.shape[1] for level in self.tokens[: max(budget, 0)]) for budget in budgets]
        return Draft(tokens.gather(1, kept), [min(count, size) for size in sizes], new_parents)

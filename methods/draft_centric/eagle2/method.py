"""EAGLE-2: the tree grows where the head is confident, then the best nodes of all are verified."""

import torch
from torch import Tensor

from specatlas.drafting.best_first import GrowingTree
from specatlas.drafting.feature_drafter import FeatureDrafter
from specatlas.drafting.feature_head import load_feature_head
from specatlas.drafting.setup import Setup
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter


class Eagle2(FeatureDrafter):
    """Expansion and reranking (arXiv 2406.16858, section 4)."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup.target, *load_feature_head(setup.artifacts["eagle"], setup.target))
        h = setup.hyperparameters
        self._depth, self._width, self._nodes = h["tree_depth"], h["top_k"], h["tree_nodes"]

    def propose(self, context: Context) -> Draft:
        """Expands the `top_k` most valuable nodes of each depth; keeps the `tree_nodes` best of all."""
        depth = min(self._depth, max(context.budgets))
        if depth == 0:
            return Draft.empty(context.batch, context.device)
        tree = GrowingTree()
        values, tokens = self.guesses(self.last, self._width)
        tree.add_level(tokens, torch.full_like(tokens, -1), values)
        features = self.last.unsqueeze(1).expand(-1, tokens.shape[1], -1)
        frontier = torch.arange(tokens.shape[1], device=context.device).expand_as(tokens)
        visible = torch.eye(tokens.shape[1], dtype=torch.bool, device=context.device).unsqueeze(0)
        branch = self.new_branch()
        for level in range(1, depth):
            features = self.expand(branch, tokens, features, visible, level)
            frontier, tokens, values, origin = self._grow(tree, frontier, values, features)
            features = features.gather(1, origin.unsqueeze(2).expand(-1, -1, features.shape[2]))
            visible = self._inherit(visible, origin)
        return tree.best(self._nodes, context.budgets)

    def _grow(
        self, tree: GrowingTree, frontier: Tensor, values: Tensor, features: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Adds all children of the frontier; returns the best of them as the next frontier.

        Returns:
            Indices in the tree, ids and values of the next frontier, and the place of each one's parent in the old
            frontier; all `[batch, top_k]`.
        """
        gains, guesses = self.guesses(features, self._width)
        count = gains.shape[2]
        candidates = (values.unsqueeze(2) + gains).flatten(1)
        start = tree.size
        parents = frontier.unsqueeze(2).expand(-1, -1, count).flatten(1)
        tree.add_level(guesses.flatten(1), parents, candidates)
        best = candidates.topk(min(self._width, candidates.shape[1]), 1)
        return start + best.indices, guesses.flatten(1).gather(1, best.indices), best.values, best.indices // count

    @staticmethod
    def _inherit(visible: Tensor, origin: Tensor) -> Tensor:
        """Each new node sees what its parent saw, and itself."""
        batch, width = origin.shape
        seen = visible.expand(batch, -1, -1).gather(1, origin.unsqueeze(2).expand(-1, -1, visible.shape[2]))
        own = torch.eye(width, dtype=torch.bool, device=origin.device).expand(batch, -1, -1)
        return torch.cat((seen, own), 2)


def build(setup: Setup) -> Drafter:
    """EAGLE-2 on EAGLE's weights."""
    return Eagle2(setup)

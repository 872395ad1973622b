"""EAGLE: a static tree, drafted level by level with the feature head."""

from dataclasses import dataclass

import torch
from torch import Tensor

from specatlas.drafting.feature_drafter import FeatureDrafter
from specatlas.drafting.feature_head import load_feature_head
from specatlas.drafting.setup import Setup
from specatlas.drafting.static_tree import StaticTree, grow_static_tree
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter


@dataclass(frozen=True)
class Level:
    """One pass of the head: the nodes of one depth that have children.

    Attributes:
        nodes: Those nodes.
        parents: Place of each node's parent in the previous level's `nodes` (zeros at the first level).
        visible: bool `[1, nodes, nodes of all levels so far]`.
        children: Tree nodes of the next depth.
        of: Place in `nodes` of each child's parent.
    """

    nodes: Tensor
    parents: Tensor
    visible: Tensor
    children: Tensor
    of: Tensor


def plan_levels(tree: StaticTree) -> list[Level]:
    """The passes that draft `tree` after its first level, which comes from the committed text itself."""
    with_children = sorted(set(tree.parents.tolist()) - {-1})
    ancestors = tree.topology.ancestors[0, 1:, 1:]
    levels: list[Level] = []
    done: list[int] = []
    previous: list[int] = []
    for depth in range(1, tree.depth):
        nodes = [node for node in with_children if tree.depths[node] == depth]
        done += nodes
        children = tree.level(depth + 1)
        parents = [previous.index(int(tree.parents[node])) if previous else 0 for node in nodes]
        of = [nodes.index(int(tree.parents[child])) for child in children]
        visible = ancestors[nodes][:, done].unsqueeze(0)
        levels.append(Level(*map(torch.tensor, (nodes, parents)), visible, *map(torch.tensor, (children, of))))
        previous = nodes
    return levels


class Eagle(FeatureDrafter):
    """Fills the tree with the head's guesses by rank."""

    def __init__(self, setup: Setup) -> None:
        artifact = setup.artifacts["eagle"]
        super().__init__(setup.target, *load_feature_head(artifact, setup.target))
        depth = setup.hyperparameters["tree_depth"]
        acceptance = [artifact.metadata["rank_acceptance"]] * depth
        self._tree = grow_static_tree(acceptance, setup.hyperparameters["tree_nodes"])
        self._levels = plan_levels(self._tree)
        self._width = int(self._tree.ranks.max()) + 1

    def propose(self, context: Context) -> Draft:
        """One pass of the head a level; the deepest level needs none."""
        if max(context.budgets) == 0:
            return Draft.empty(context.batch, context.device)
        tokens = torch.zeros((context.batch, len(self._tree.paths)), dtype=torch.long, device=context.device)
        first = torch.tensor(self._tree.level(1))
        _, guesses = self.guesses(self.last, self._width)
        tokens[:, first] = guesses[:, self._tree.ranks[first]]
        features = self.last.unsqueeze(1)
        branch = self.new_branch()
        for depth, level in enumerate(self._levels, 1):
            features = self.expand(
                branch, tokens[:, level.nodes], features[:, level.parents], level.visible.to(context.device), depth
            )
            _, guesses = self.guesses(features, self._width)
            tokens[:, level.children] = guesses[:, level.of, self._tree.ranks[level.children]]
        counts = [len(self._tree.paths) if budget > 0 else 0 for budget in context.budgets]
        parents = self._tree.parents.to(context.device).expand(context.batch, -1)
        return Draft(tokens, counts, parents, topology=self._tree.topology)


def build(setup: Setup) -> Drafter:
    """EAGLE with the static tree that its held-out acceptance suggests."""
    return Eagle(setup)

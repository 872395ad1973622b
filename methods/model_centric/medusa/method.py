"""Medusa: heads on the last hidden state guess several future tokens at once; a sparse tree of their guesses."""

import torch

from specatlas.drafting.medusa_heads import MedusaHeads
from specatlas.drafting.setup import Setup
from specatlas.drafting.static_tree import grow_static_tree
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.engine.transformer import NORMED
from specatlas.errors import VocabularyMismatch


class Medusa(Drafter):
    """Fills a static tree: the node of rank r at depth k holds head k's r-th guess, whatever its parent is."""

    taps = (NORMED,)

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        artifact, target, h = setup.artifacts["medusa"], setup.target, setup.hyperparameters
        weight = artifact.tensors["weight"]
        if weight.shape[1] != target.architecture.hidden:
            raise VocabularyMismatch(
                f"The Medusa heads were made for a width of {weight.shape[1]}, the target has "
                f"{target.architecture.hidden}; train them for this target."
            )
        self._heads = MedusaHeads(weight.shape[1], len(weight))
        self._heads.load_state_dict({name: artifact.tensors[name] for name in ("weight", "bias")})
        self._heads.to(target.device, target.dtype).requires_grad_(False)
        rows = artifact.tensors["head"].to(target.device, target.dtype)
        self._vocabulary = SubsetHead(rows, artifact.tensors["ids"], target.architecture.vocabulary)
        self._tree = grow_static_tree(artifact.metadata["rank_acceptance"][: h["heads"]], h["tree_nodes"])
        self.extra_parameters = weight.numel() + artifact.tensors["bias"].numel()
        self._depth_index = torch.tensor(self._tree.depths) - 1
        self._width = int(self._tree.ranks.max()) + 1

    def start(self, context: Context) -> None:
        """The hidden state that made each row's first answer token."""
        ends = torch.tensor(context.prompt_lengths, device=context.device) - 1
        self._hidden = context.prompt_taps[NORMED][torch.arange(context.batch, device=context.device), ends]

    def propose(self, context: Context) -> Draft:
        """All heads at once, then a look-up by depth and rank."""
        if max(context.budgets) == 0:
            return Draft.empty(context.batch, context.device)
        self.passes += 1
        logits = self._vocabulary.logits(self._heads(self._hidden)[: self._tree.depth])
        _, guesses = self._vocabulary.topk(logits, self._width)
        tokens = guesses.transpose(0, 1)[:, self._depth_index, self._tree.ranks]
        counts = [len(self._tree.paths) if budget > 0 else 0 for budget in context.budgets]
        parents = self._tree.parents.to(context.device).expand(context.batch, -1)
        return Draft(tokens, counts, parents, topology=self._tree.topology)

    def observe(self, context: Context, step: Step) -> None:
        """The hidden state that made each row's newest token: the last accepted node's, or the old root's."""
        pairs = zip(step.paths, step.emitted, strict=True)
        last = [path[len(new) - 2] + 1 if len(new) > 1 else 0 for path, new in pairs]
        rows = torch.arange(context.batch, device=context.device)
        self._hidden = step.taps[NORMED][rows, torch.tensor(last, device=context.device)]


def build(setup: Setup) -> Drafter:
    """Medusa with the sparse tree that its held-out accuracy suggests."""
    return Medusa(setup)

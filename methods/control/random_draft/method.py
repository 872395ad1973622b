"""Uniformly random drafts, with the q that they were drawn from."""

import torch

from specatlas.drafting.setup import Setup
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter
from specatlas.engine.sampling import DRAFT_STREAM


class RandomDraft(Drafter):
    """Draws every draft token uniformly from the vocabulary."""

    def __init__(self, length: int, vocabulary: int) -> None:
        super().__init__()
        self._length, self._vocabulary = length, vocabulary

    def propose(self, context: Context) -> Draft:
        """A random chain; all its nodes share one uniform distribution."""
        if self._length == 0:
            return Draft.empty(context.batch, context.device)
        uniforms = context.uniforms(self._length, DRAFT_STREAM)
        tokens = (uniforms * self._vocabulary).long().clamp_(max=self._vocabulary - 1)
        counts = [self._length] * context.batch
        if context.settings.greedy:
            return Draft(tokens, counts)
        q = torch.full((context.batch, 1, self._vocabulary), 1 / self._vocabulary, device=context.device)
        return Draft(tokens, counts, q=q, q_rows=torch.zeros_like(tokens))


def build(setup: Setup) -> Drafter:
    """A random drafter for the target's vocabulary."""
    return RandomDraft(setup.hyperparameters["draft_length"], setup.target.architecture.vocabulary)

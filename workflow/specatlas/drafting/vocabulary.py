"""A drafter's head over the most frequent tokens only (EAGLE-3, arXiv 2503.01840; FR-Spec, arXiv 2502.14856).

At batch 1 a small drafter spends most of its time reading a full-vocabulary head; a frequency-ranked subset removes
that, at the price of never proposing a rare token.
"""

import torch
from torch import Tensor

from specatlas.engine.linear import Linear
from specatlas.engine.sampling import SamplingSettings, probabilities
from specatlas.errors import VocabularyMismatch


class SubsetHead:
    """Projects hidden states onto chosen token ids.

    Args:
        weight: Rows of the head, `[subset, hidden]`, in the order of `ids`.
        ids: Token id of each row, `[subset]`.
        vocabulary: Size of the full vocabulary.

    Raises:
        VocabularyMismatch: `ids` do not lie in the vocabulary, or do not fit the weight.
    """

    def __init__(self, weight: Tensor, ids: Tensor, vocabulary: int) -> None:
        if len(ids) != len(weight) or (len(ids) and int(ids.max()) >= vocabulary):
            raise VocabularyMismatch(
                f"A drafter's head of {len(weight)} rows names {len(ids)} ids up to {int(ids.max())}, but the target's "
                f"vocabulary has {vocabulary}; train the drafter again for this target."
            )
        self.ids, self.vocabulary = ids.to(weight.device), vocabulary
        self._linear = Linear(weight.shape[1], weight.shape[0])
        self._linear.weight = torch.nn.Parameter(weight.contiguous(), requires_grad=False)
        self._linear.pack()

    @property
    def parameter_count(self) -> int:
        """Weights of the head."""
        return len(self.ids) * self._linear.inputs

    def logits(self, hidden: Tensor) -> Tensor:
        """`[..., hidden]` to `[..., subset]`."""
        result: Tensor = self._linear(hidden)
        return result

    def argmax(self, logits: Tensor) -> Tensor:
        """Token ids of the largest subset logits, `[...]`."""
        return self.ids[logits.max(-1).indices]

    def topk(self, logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """(log-probabilities, token ids) of the `count` likeliest tokens of the subset, `[..., count]` each."""
        scores = logits.float()
        values, index = scores.topk(min(count, scores.shape[-1]), -1)
        return values - scores.logsumexp(-1, keepdim=True), self.ids[index]

    def distribution(self, logits: Tensor, settings: SamplingSettings) -> Tensor:
        """The drafter's q over the full vocabulary, 0 outside the subset: `[..., vocabulary]`."""
        q = probabilities(logits, settings)
        return q.new_zeros((*q.shape[:-1], self.vocabulary)).index_copy_(-1, self.ids, q)

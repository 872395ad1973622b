"""Which tokens a drafter's reduced head covers: the most frequent ones of the corpus."""

from collections.abc import Iterable

import torch
from torch import Tensor

from specatlas.training.examples import Example


def frequent_tokens(examples: Iterable[Example], vocabulary: int, count: int) -> Tensor:
    """The `count` most frequent answer tokens, rising ids; ties and tokens never seen by lower id.

    Byte-pair vocabularies list frequent merges first, so filling up by id is a fair guess for unseen tokens.
    """
    frequency = torch.zeros(vocabulary, dtype=torch.long)
    for example in examples:
        frequency += torch.bincount(example.tokens[example.answer_start :], minlength=vocabulary)
    order = torch.argsort(-frequency, stable=True)
    return order[: min(count, vocabulary)].sort().values


def coverage(examples: Iterable[Example], ids: Tensor, vocabulary: int) -> float:
    """Share of the answer tokens that lie in `ids`."""
    inside = torch.zeros(vocabulary, dtype=torch.bool)
    inside[ids] = True
    tokens = torch.cat([example.tokens[example.answer_start :] for example in examples])
    return float(inside[tokens].float().mean())

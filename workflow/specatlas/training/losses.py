"""Distillation losses."""

import torch
import torch.nn.functional as F
from torch import Tensor


def soft_cross_entropy(logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """Mean cross-entropy of the student under the teacher's distribution; its gradient is that of forward KL.

    Both `[positions, tokens]` over the same tokens (DistillSpec, arXiv 2310.08461, forward KL).
    """
    return F.cross_entropy(logits.float(), teacher_logits.float().softmax(-1))


def agreement(logits: Tensor, teacher_logits: Tensor) -> float:
    """Share of positions where student and teacher have the same argmax."""
    if len(logits) == 0:
        return 0.0
    return float((logits.argmax(-1) == teacher_logits.argmax(-1)).float().mean())


def rank_acceptance(logits: Tensor, wanted: Tensor, ranks: int) -> Tensor:
    """Probability that the student's r-th likeliest token is the wanted one, `[ranks]`.

    `logits` is `[positions, tokens]`, `wanted` `[positions]` holds indices into the tokens, or -1 for a token that the
    student's head does not cover.
    """
    top = logits.topk(min(ranks, logits.shape[-1]), -1).indices
    hits = (top == wanted.unsqueeze(1)).float().mean(0)
    return F.pad(hits, (0, ranks - len(hits))) if len(hits) < ranks else hits


def teacher_logits(features: Tensor, head: Tensor) -> Tensor:
    """The target's logits over a head's rows, from its last hidden states: `[..., hidden]` × `[tokens, hidden]`."""
    return torch.matmul(features.to(head.dtype), head.T)

"""Medusa's heads (arXiv 2401.10774, section 2.1): residual blocks on the last hidden state, one a future offset."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MedusaHeads(nn.Module):
    """Head k maps h to h + SiLU(W_k h + b_k), which the target's head then reads; all heads in one product.

    Args:
        hidden: Width of the target.
        heads: Number of future offsets.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        # Zero weights make every head start as the target's own next-token guess.
        self.weight = nn.Parameter(torch.zeros(heads, hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(heads, hidden))

    @property
    def heads(self) -> int:
        """Number of future offsets."""
        return self.weight.shape[0]

    def single(self, hidden: Tensor, head: int) -> Tensor:
        """One head alone, for training: `[..., hidden]` to `[..., hidden]`."""
        return hidden + F.silu(F.linear(hidden, self.weight[head], self.bias[head]))

    def forward(self, hidden: Tensor) -> Tensor:
        """`[..., hidden]` to `[heads, ..., hidden]`."""
        flat = hidden.flatten(0, -2)
        moved = torch.baddbmm(self.bias.unsqueeze(1), flat.expand(self.heads, -1, -1), self.weight.transpose(1, 2))
        result: Tensor = (flat + F.silu(moved)).unflatten(1, hidden.shape[:-1])
        return result

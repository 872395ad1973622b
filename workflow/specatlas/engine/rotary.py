"""Rotary position embeddings as one complex multiplication.

Checkpoints pair dimension i with i + D/2 (rotate-half). The loader reorders each head so that pairs lie side by side,
which leaves every dot product unchanged and lets a head be viewed as complex numbers.
"""

import math

import torch
from torch import Tensor, nn

from specatlas.engine.architecture import Architecture, RopeScaling


def interleave(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders the rows of a query or key projection `[heads * head_dim, ...]` from halves to adjacent pairs."""
    halves: Tensor = weight.unflatten(0, (-1, 2, head_dim // 2))
    return halves.transpose(1, 2).flatten(0, 2).contiguous()


def rotation_table(architecture: Architecture, length: int) -> Tensor:
    """Unit complex numbers `[length, head_dim / 2]` in complex64, one row a position.

    Source: RoFormer (arXiv 2104.09864), eq. 15; Llama 3.1's frequency scaling as published with its checkpoints.
    """
    dims = torch.arange(0, architecture.head_dim, 2, dtype=torch.float64)
    frequencies = _scaled(architecture.rope_theta ** (-dims / architecture.head_dim), architecture.rope_scaling)
    # transformers computes the frequencies in fp32, so fp32 frequencies keep long positions equal to its own.
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies.float())
    return torch.polar(torch.ones_like(angles), angles)


class Rotary(nn.Module):
    """Rotations of a fused projection: queries are rotated and divided by √head_dim, keys rotated, values left alone.

    One complex product then serves all heads of a token, and keys and values leave it side by side for the cache.
    """

    table: Tensor
    scale: Tensor
    offset: Tensor

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        factors = [a.head_dim**-0.5] * a.heads + [1.0] * a.kv_heads + [0.0] * a.kv_heads
        scale = torch.tensor(factors).unsqueeze(1)
        self.register_buffer("table", rotation_table(architecture, architecture.context), persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("offset", (scale == 0).float(), persistent=False)

    def consecutive(self, start: int, width: int) -> Tensor:
        """For positions start, start + 1, …: complex64 `[1, width, heads + 2 kv_heads, head_dim / 2]`."""
        part = self.table[None, start : start + width]
        if part.shape[1] < width:
            return self.at(torch.arange(start, start + width, device=part.device).unsqueeze(0))
        return self._spread(part)

    def at(self, positions: Tensor) -> Tensor:
        """For explicit positions `[batch, width]`.

        Near the end of the context, padding and probes may point beyond it; no token of the answer does.
        """
        return self._spread(self.table[positions.clamp(max=len(self.table) - 1)])

    def _spread(self, rotation: Tensor) -> Tensor:
        return rotation.unsqueeze(2) * self.scale + self.offset


def _scaled(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    if scaling.kind == "llama3":
        wavelengths = 2 * math.pi / frequencies
        low = scaling.original_positions / scaling.low_frequency_factor
        high = scaling.original_positions / scaling.high_frequency_factor
        smooth = (scaling.original_positions / wavelengths - scaling.low_frequency_factor) / (
            scaling.high_frequency_factor - scaling.low_frequency_factor
        )
        blended = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies
        result = torch.where(wavelengths > low, frequencies / scaling.factor, frequencies)
        return torch.where((wavelengths <= low) & (wavelengths >= high), blended, result)
    return frequencies

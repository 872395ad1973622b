"""Rotary position embeddings as one complex multiplication.

Checkpoints pair dimension i with i + D/2 (rotate-half). The loader reorders each head so that pairs lie side by side,
which leaves every dot product unchanged and lets a head be viewed as complex numbers.
"""

import math

import torch
from torch import Tensor

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

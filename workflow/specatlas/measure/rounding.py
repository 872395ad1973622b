"""How far rounding alone may move a logit, in units in the last place (ULP)."""

import math

import torch

SIGNIFICANT_BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}

TOLERANCE_ULP = {torch.bfloat16: 8.0, torch.float16: 8.0, torch.float32: 128.0}
"""Largest gap between two logits that still counts as a tie.

The same position evaluated in a pass of another width sums in another order; every layer rounds the residual stream, so
the difference grows with depth. Measured on SmolLM2-135M (30 layers, 432 positions, widths 1, 5, 11 and all at once):
the gap between the two best logits moved by 0 ULP in the median and 4 at most in bfloat16, and by 4 and 23 in float32,
where a unit is 65,536 times finer but nothing in the sums is rounded away. Twice the largest, and room for deeper
models; others use 2.4 ULP in bfloat16 (known faults A03, A10). A wrong token is off by tens to hundreds.
"""


def ulp(value: float, dtype: torch.dtype) -> float:
    """Distance between neighbouring numbers of `dtype` around `value`: 0.125 for 20 in bfloat16 (known fault A10)."""
    smallest = torch.finfo(dtype).tiny
    exponent = math.frexp(max(abs(value), smallest))[1]
    return math.ldexp(1.0, exponent - SIGNIFICANT_BITS[dtype])

"""How far rounding alone may move a logit, in units in the last place (ULP)."""

import math

import torch

SIGNIFICANT_BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}

TOLERANCE_ULP = {torch.bfloat16: 8.0, torch.float16: 8.0, torch.float32: 512.0}


def ulp(value: float, dtype: torch.dtype) -> float:
    """Distance between neighbouring numbers of `dtype` around `value`: 0.125 for 20 in bfloat16 (known fault A10)."""
    smallest = torch.finfo(dtype).tiny
    exponent = math.frexp(max(abs(value), smallest))[1]
    return math.ldexp(1.0, exponent - SIGNIFICANT_BITS[dtype])

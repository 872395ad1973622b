"""From logits to tokens: one function for every probability, and randomness that depends only on seed and position."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specatlas.errors import NumericalError, UnsupportedSampling

VERIFICATION_STREAM, DRAFT_STREAM = 0, 1
_MASK = (1 << 63) - 1


@dataclass(frozen=True)
class SamplingSettings:
    """How tokens are chosen.

    Attributes:
        temperature: 0 for greedy.
        top_k: Keep the k most probable tokens; None for all.
        top_p: Keep the smallest set of most probable tokens with at least this mass; None for all.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if self.temperature < 0 or (self.top_k is not None and self.top_k < 1):
            raise UnsupportedSampling(
                f"temperature {self.temperature} and top_k {self.top_k} must not be below 0 and 1."
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UnsupportedSampling(f"top_p {self.top_p} must lie in (0, 1].")

    @property
    def greedy(self) -> bool:
        """Whether every choice is the argmax."""
        return self.temperature == 0


def refuse_nan(found: bool) -> None:
    """Refuses NaN, which argmax and softmax would turn into an arbitrary token.

    Raises:
        NumericalError: It was found.
    """
    if found:
        raise NumericalError("The model's logits contain NaN; check its weights and precision.")


def probabilities(logits: Tensor, settings: SamplingSettings) -> Tensor:
    """The distribution that `settings` makes of `logits`, in fp32; used for the target's p and the drafter's q alike.

    Args:
        logits: `[..., vocabulary]`.
        settings: At temperature 0 the result is one-hot at the first largest logit.

    Returns:
        `[..., vocabulary]`, each row summing to 1; a row whose logits contain NaN is NaN throughout, which is noticed
        where the decision is read back (`read_back`), since looking here would make the host wait for the device.
    """
    scores = logits.float()
    if settings.greedy:
        largest, index = scores.max(-1, keepdim=True)
        # 0 times the largest logit is 0, or NaN where the row has one.
        return torch.zeros_like(scores).scatter_(-1, index, 1.0) + largest * 0
    scores = scores / settings.temperature
    if settings.top_k is not None and settings.top_k < scores.shape[-1]:
        least = scores.topk(settings.top_k, -1).values[..., -1:]
        scores = scores.masked_fill(scores < least, float("-inf"))
    if settings.top_p is not None and settings.top_p < 1:
        scores = _keep_nucleus(scores, settings.top_p)
    return scores.softmax(-1)


def _keep_nucleus(scores: Tensor, top_p: float) -> Tensor:
    ordered, index = scores.sort(stable=True, dim=-1, descending=True)
    mass = ordered.softmax(-1).cumsum(-1)
    # A token stays if the mass before it has not reached top_p yet, so the most probable one always stays.
    dropped = torch.cat((torch.zeros_like(mass[..., :1]), mass[..., :-1]), -1) >= top_p
    return scores.masked_fill(torch.zeros_like(dropped).scatter_(-1, index, dropped), float("-inf"))


def choose(weights: Tensor, uniform: Tensor) -> Tensor:
    """Samples an index by inverting the cumulative weights; an index of weight 0 is never chosen.

    Args:
        weights: Non-negative, `[..., vocabulary]`; need not sum to 1, but must not all be 0.
        uniform: In [0, 1), `[...]`.
    """
    cumulative = weights.cumsum(-1)
    point = (uniform.unsqueeze(-1) * cumulative[..., -1:]).to(cumulative.dtype)
    index = torch.searchsorted(cumulative, point, right=True).squeeze(-1)
    # Rounding may push the point onto the total; the last index that adds weight is the right one then. Weights of NaN
    # would give an index beyond the end, which a GPU answers by aborting: any token will do, since its q rejects it.
    last = torch.searchsorted(cumulative, cumulative[..., -1:].contiguous()).squeeze(-1)
    return torch.minimum(index, last).clamp_(max=weights.shape[-1] - 1)


class RowRandom:
    """Uniform random numbers for each row of a batch, a function of (row's seed, position, stream) alone.

    Neither the other rows nor how earlier tokens were drafted changes what a row draws at a position.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self._seeds = list(seeds)
        self._device = device
        self._generator = torch.Generator()

    def uniforms(self, positions: Sequence[int], count: int, stream: int) -> Tensor:
        """`[batch, count]` numbers in [0, 1); the first ones do not depend on `count`."""
        rows = []
        for seed, position in zip(self._seeds, positions, strict=True):
            self._generator.manual_seed(_mix(seed, position, stream))
            rows.append(torch.rand(count, generator=self._generator))
        return torch.stack(rows).to(self._device)


def _mix(*values: int) -> int:
    """SplitMix64's finaliser over several integers: near seeds give unrelated generators."""
    state = 0
    for value in values:
        state = (state + value + 0x9E3779B97F4A7C15) & ((1 << 64) - 1)
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & ((1 << 64) - 1)
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & ((1 << 64) - 1)
        state ^= state >> 31
    return state & _MASK

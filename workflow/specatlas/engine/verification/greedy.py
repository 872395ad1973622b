"""Greedy verification: a draft token stands while it is the target's argmax."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.verification.rule import Preserves, Verdict, VerificationRule, walk
from specatlas.errors import NumericalError


class Greedy(VerificationRule):
    """Keeps the longest path of argmax tokens, then emits the argmax after it (arXiv 2211.17192, temperature 0)."""

    preserves: ClassVar[Preserves] = "exact"
    needs_randomness = False

    def __call__(self, draft: Draft, logits: Tensor, settings: SamplingSettings, uniforms: Tensor | None) -> Verdict:  # noqa: ARG002
        """See the base class."""
        largest, index = logits.max(-1)
        # One copy to the host serves the NaN check, the walk and the bonus: the only synchronisation of a step.
        packed = torch.cat((index, draft.tokens), 1).tolist()
        if any(math.isnan(value) for row in largest.tolist() for value in row):
            raise NumericalError("The model's logits contain NaN; check its weights and precision.")
        wanted = [row[: logits.shape[1]] for row in packed]
        paths = walk(draft, [row[logits.shape[1] :] for row in packed], wanted)
        return Verdict(paths, [row[path[-1] + 1 if path else 0] for row, path in zip(wanted, paths, strict=True)])

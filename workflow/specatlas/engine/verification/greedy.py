"""Greedy verification: a draft token stands while it is the target's argmax."""

from typing import ClassVar

from torch import Tensor

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.verification.rule import Preserves, Verdict, VerificationRule, read_back, walk


class Greedy(VerificationRule):
    """Keeps the longest path of argmax tokens, then emits the argmax after it (arXiv 2211.17192, temperature 0)."""

    preserves: ClassVar[Preserves] = "exact"
    needs_randomness = False

    def __call__(self, draft: Draft, logits: Tensor, settings: SamplingSettings, uniforms: Tensor | None) -> Verdict:  # noqa: ARG002
        """See the base class."""
        largest, index = logits.max(-1)
        wanted = read_back(draft, index, largest)
        paths = walk(draft, wanted)
        return Verdict(paths, [row[path[-1] + 1 if path else 0] for row, path in zip(wanted, paths, strict=True)])

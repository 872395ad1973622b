"""What a verification rule is: it decides which drafted tokens stand, and which token the target adds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings

Preserves = Literal["exact", "distribution", "lossy"]


@dataclass(frozen=True)
class Verdict:
    """A rule's decision, on the host.

    Attributes:
        paths: Accepted node indices of each row, root to leaf; may be empty.
        bonus: The token that verification itself yields after each row's path.
    """

    paths: list[list[int]]
    bonus: list[int]


class VerificationRule(ABC):
    """Base of all rules.

    Attributes:
        preserves: `exact` (same tokens at temperature 0), `distribution` (same distribution at any temperature) or
            `lossy`.
        parameters: Hyper-parameters of a method's card that the rule's constructor takes.
        needs_randomness: Whether uniforms are drawn for it.
        chains_only: Whether trees are refused.
    """

    preserves: ClassVar[Preserves]
    parameters: ClassVar[tuple[str, ...]] = ()
    needs_randomness: ClassVar[bool] = True
    chains_only: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, draft: Draft, logits: Tensor, settings: SamplingSettings, uniforms: Tensor | None) -> Verdict:
        """Decides.

        Args:
            draft: The draft.
            logits: Target logits after the root and after every node, `[batch, 1 + nodes, vocabulary]`.
            settings: Sampling settings.
            uniforms: `[batch, 1 + nodes]` in [0, 1): column 0 for the bonus token, column i + 1 for node i; None where
                the rule needs no randomness.

        Raises:
            NumericalError: The logits contain NaN.
        """


def walk(draft: Draft, tokens: list[list[int]], wanted: list[list[int]]) -> list[list[int]]:
    """Longest path of each row whose every node is the token wanted after its parent.

    Args:
        draft: The draft.
        tokens: Its tokens as lists.
        wanted: Per row, the token wanted after the root and after every node.

    One pass suffices, since nodes come after their parents.
    """
    paths = []
    for row, parents in enumerate(draft.parent_lists()):
        path: list[int] = []
        current = -1
        for node, parent in enumerate(parents):
            if parent == current and tokens[row][node] == wanted[row][current + 1]:
                path.append(node)
                current = node
        paths.append(path)
    return paths

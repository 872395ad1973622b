"""What a verification rule is: it decides which drafted tokens stand, and which token the target adds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from specatlas.engine.draft import Draft
from specatlas.engine.sampling import SamplingSettings, refuse_nan

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


def read_back(draft: Draft, decision: Tensor, p: Tensor) -> list[list[int]]:
    """Reads a decision `[batch, columns]` from the device: the one synchronisation of a step.

    The draft's tokens and parents come along, and whether `p` (any values that NaN logits spoil) contains NaN.

    Raises:
        NumericalError: It does.
    """
    spoilt = torch.isnan(p).flatten(1).any(1, keepdim=True)
    parts = [decision, spoilt, draft.tokens, *([] if draft.parents is None else [draft.parents])]
    host: list[list[int]] = torch.cat([part.long() for part in parts], 1).tolist()
    columns, nodes = decision.shape[1], draft.nodes
    refuse_nan(any(row[columns] for row in host))
    tokens = [row[columns + 1 : columns + 1 + nodes] for row in host]
    draft.remember(tokens, None if draft.parents is None else [row[columns + 1 + nodes :] for row in host])
    return [row[:columns] for row in host]


def walk(draft: Draft, wanted: list[list[int]]) -> list[list[int]]:
    """Longest path of each row whose every node is the token wanted after its parent.

    Args:
        draft: The draft, read back.
        wanted: Per row, the token wanted after the root and after every node.

    One pass suffices, since nodes come after their parents.
    """
    tokens = draft.token_lists()
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

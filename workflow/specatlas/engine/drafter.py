"""The contract between a method and the harness: a drafter proposes, and that is all it does."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from specatlas.engine.cache import KVCache
from specatlas.engine.draft import Draft
from specatlas.engine.sampling import RowRandom, SamplingSettings
from specatlas.engine.transformer import Transformer


@dataclass
class Context:
    """What a drafter may look at. It may run (parts of) the target on a `branch` or `view` of the cache.

    Attributes:
        target: The target model.
        cache: The target's cache: every committed token but each row's last one, the root.
        tokens: Committed ids of each row: prompt and answer so far.
        prompt_lengths: Ids of each row that are the prompt's.
        active: Rows that still generate.
        budgets: Deepest draft of each row that can still be emitted; 0 for rows that have ended.
        settings: Sampling settings; q must be made with the same `probabilities`.
        random: The drafter's own random numbers.
        prompt_taps: The taps that the drafter asked for, over each row's prompt, `[batch, longest prompt, hidden]`.
    """

    target: Transformer
    cache: KVCache
    tokens: list[list[int]]
    prompt_lengths: list[int]
    active: list[bool]
    budgets: list[int]
    settings: SamplingSettings
    random: RowRandom
    prompt_taps: dict[int, Tensor] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """Number of rows."""
        return len(self.tokens)

    @property
    def device(self) -> torch.device:
        """Where the target lies; drafters put their tensors there."""
        return self.target.device

    @property
    def roots(self) -> list[int]:
        """Last committed token of each row."""
        return [row[-1] for row in self.tokens]

    @property
    def answer_lengths(self) -> list[int]:
        """Ids generated so far; the position that keys random numbers."""
        return [len(row) - prompt for row, prompt in zip(self.tokens, self.prompt_lengths, strict=True)]

    def uniforms(self, count: int, stream: int) -> Tensor:
        """`[batch, count]` random numbers for the current position."""
        return self.random.uniforms(self.answer_lengths, count, stream)


@dataclass(frozen=True)
class Step:
    """What one verification step did.

    Attributes:
        draft: The draft as verified (clipped to the budgets).
        logits: Target logits after the root and after every node, `[batch, 1 + nodes, vocabulary]`.
        taps: The taps asked for, over root, nodes and probes, `[batch, 1 + nodes + probes, hidden]`.
        probe_logits: `[batch, probes, vocabulary]`, or None.
        paths: Accepted nodes of each row that were emitted.
        emitted: Tokens that each row gained: its path's and, unless the answer was cut, the bonus token.
    """

    draft: Draft
    logits: Tensor
    taps: dict[int, Tensor]
    probe_logits: Tensor | None
    paths: list[list[int]]
    emitted: list[list[int]]


class Drafter:
    """Base of every method.

    Attributes:
        taps: Hidden states of the target that the drafter wants (see `Transformer.run`).
        passes: Passes of the drafter's own network, or of a part of the target, in this generation.
        extra_parameters: Parameters that the method adds to the target's.
    """

    taps: tuple[int, ...] = ()
    extra_parameters: int = 0
    batched: ClassVar[bool] = True

    def __init__(self) -> None:
        self.passes = 0

    def begin(self, context: Context) -> None:
        """Harness hook: forgets the last generation, then calls `start`."""
        self.passes = 0
        self.start(context)

    def start(self, context: Context) -> None:
        """The prompt is prefilled and its first token committed."""

    def budgets(self, context: Context) -> Sequence[int]:
        """Deepest draft of each row; a batch-level method may give less than `context.budgets`, even 0."""
        return context.budgets

    def propose(self, context: Context) -> Draft:
        """The next draft."""
        raise NotImplementedError

    def observe(self, context: Context, step: Step) -> None:
        """A step has been verified and `context.tokens` extended."""


class PlainDrafter(Drafter):
    """Never drafts: the loop becomes plain autoregressive decoding. The baseline of every unit."""

    def propose(self, context: Context) -> Draft:
        """An empty draft."""
        return Draft.empty(context.batch, context.device)

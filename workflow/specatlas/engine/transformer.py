"""The decoder-only transformer that every target and every draft model is."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from specatlas.engine.architecture import Architecture
from specatlas.engine.cache import KVCache
from specatlas.engine.layers import DecoderLayer, RMSNorm
from specatlas.engine.linear import Linear
from specatlas.engine.rotary import Rotary
from specatlas.engine.span import Span, plan_span

NORMED = -1
"""Tap of the final hidden state after the last norm: what the head reads."""


@dataclass(frozen=True)
class LayerPlan:
    """Which parts of the model a pass runs.

    Attributes:
        start, stop: Range of layers; stop None for all the rest.
        skipped_attention, skipped_feed_forward: Layers whose sublayer is left out (its residual passes on).
    """

    start: int = 0
    stop: int | None = None
    skipped_attention: frozenset[int] = frozenset()
    skipped_feed_forward: frozenset[int] = frozenset()


ALL_LAYERS = LayerPlan()


@dataclass(frozen=True)
class Pass:
    """What a pass over new positions gives.

    Attributes:
        hidden: Last residual stream, before the final norm, `[batch, width, hidden]`.
        taps: Residual stream after k layers (0: the embeddings), by k; NORMED for the final norm's output.
    """

    hidden: Tensor
    taps: dict[int, Tensor]


class Transformer(nn.Module):
    """A model of one of the families in `architecture.FAMILIES`. Weights come from `loading.load_transformer`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.embedding = nn.Parameter(torch.empty(architecture.vocabulary, architecture.hidden))
        self.layers = nn.ModuleList(DecoderLayer(architecture) for _ in range(architecture.layers))
        self.norm = RMSNorm(architecture.hidden, architecture.norm_eps)
        self.head = Linear(architecture.hidden, architecture.vocabulary)
        if architecture.tied_embeddings:
            self.head.weight = self.embedding
        self.rotary = Rotary(architecture)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return self.embedding.dtype

    @property
    def parameter_count(self) -> int:
        """Parameters, shared ones counted once."""
        a = self.architecture
        linear = a.hidden * (a.heads + 2 * a.kv_heads) * a.head_dim + a.heads * a.head_dim * a.hidden
        biases = a.qkv_bias * (a.heads + 2 * a.kv_heads) * a.head_dim + a.output_bias * a.hidden
        layer = linear + biases + 3 * a.hidden * a.intermediate + 2 * a.hidden + a.qk_norm * 2 * a.head_dim
        embeddings = a.vocabulary * a.hidden * (1 if a.tied_embeddings else 2)
        return a.layers * layer + embeddings + a.hidden

    def pack(self) -> None:
        """Packs every linear layer for inference; the model can no longer be trained."""
        for module in self.modules():
            if isinstance(module, Linear | RMSNorm):
                module.pack()

    def new_cache(self, batch: int, capacity: int) -> KVCache:
        """An empty cache for this model: fp32 on a CPU (see `attention`), the model's precision elsewhere."""
        dtype = torch.float32 if self.device.type == "cpu" else self.dtype
        return KVCache(self.architecture, batch, capacity, dtype=dtype, device=self.device)

    def embed(self, tokens: Tensor) -> Tensor:
        """`[batch, width]` ids to `[batch, width, hidden]`."""
        return nn.functional.embedding(tokens, self.embedding)

    def span(self, cache: KVCache, width: int, positions: Tensor | None = None, mask: Tensor | None = None) -> Span:
        """Plans a pass over `width` new positions; see `plan_span`."""
        return plan_span(self.rotary, cache, width, positions, mask)

    def run(self, hidden: Tensor, span: Span, plan: LayerPlan = ALL_LAYERS, taps: Collection[int] = ()) -> Pass:
        """Runs layers over `hidden`, which is the residual stream before layer `plan.start`."""
        kept: dict[int, Tensor] = {}
        stop = len(self.layers) if plan.stop is None else plan.stop
        for index in range(plan.start, stop):
            if index in taps:
                kept[index] = hidden
            layer = cast(DecoderLayer, self.layers[index])
            if index not in plan.skipped_attention:
                hidden = layer.attention(hidden, span, index)
            if index not in plan.skipped_feed_forward:
                hidden = layer.feed_forward(hidden)
        if stop in taps:
            kept[stop] = hidden
        if NORMED in taps:
            kept[NORMED] = self.norm(hidden)
        return Pass(hidden, kept)

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and head: `[..., hidden]` to `[..., vocabulary]`."""
        return self.head.forward(self.norm.forward(hidden))

    def forward(
        self,
        tokens: Tensor,
        cache: KVCache,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        plan: LayerPlan = ALL_LAYERS,
        taps: Collection[int] = (),
    ) -> Pass:
        """One pass over new tokens `[batch, width]`; they stay scratch until the cache is advanced."""
        span = self.span(cache, tokens.shape[1], positions, mask)
        return self.run(self.embed(tokens), span, plan, taps)

    def forward_causal(self, tokens: Tensor, taps: Collection[int] = ()) -> Pass:
        """Whole sequences `[batch, length]` without a cache; differentiable."""
        hidden, kept = self.embed(tokens), {}
        rotation = self.rotary.consecutive(0, tokens.shape[1])
        for index, layer in enumerate(self.layers):
            if index in taps:
                kept[index] = hidden
            hidden = cast(DecoderLayer, layer).forward_causal(hidden, rotation)
        if len(self.layers) in taps:
            kept[len(self.layers)] = hidden
        if NORMED in taps:
            kept[NORMED] = self.norm(hidden)
        return Pass(hidden, kept)


def pad_rows(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Token rows of different lengths as one tensor `[batch, longest]`, padded at the end with id 0."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], dtype=torch.long, device=device)

"""One decoder layer: the two sublayers, each of which can be skipped, with or without a cache."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specatlas.engine.architecture import Architecture
from specatlas.engine.attention import attend, attend_causal
from specatlas.engine.linear import Linear
from specatlas.engine.span import Span


class RMSNorm(nn.Module):
    """x / rms(x) · weight (arXiv 1910.07467)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, hidden: Tensor) -> Tensor:
        """Normalises the last dimension; sums in fp32 whatever the precision."""
        return F.rms_norm(hidden, (hidden.shape[-1],), self.weight, self.eps)


class DecoderLayer(nn.Module):
    """Pre-norm attention and gated feed-forward, with fused projections."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = architecture
        self.heads, self.kv_heads, self.head_dim = a.heads, a.kv_heads, a.head_dim
        self.attention_norm = RMSNorm(a.hidden, a.norm_eps)
        self.qkv = Linear(a.hidden, (a.heads + 2 * a.kv_heads) * a.head_dim, bias=a.qkv_bias)
        self.output = Linear(a.heads * a.head_dim, a.hidden, bias=a.output_bias)
        self.feed_forward_norm = RMSNorm(a.hidden, a.norm_eps)
        self.gate_up = Linear(a.hidden, 2 * a.intermediate)
        self.down = Linear(a.intermediate, a.hidden)
        self.query_norm = RMSNorm(a.head_dim, a.norm_eps) if a.qk_norm else None
        self.key_norm = RMSNorm(a.head_dim, a.norm_eps) if a.qk_norm else None
        self._scale = a.head_dim**-0.5

    def attention(self, hidden: Tensor, span: Span, keys: Tensor, values: Tensor) -> Tensor:
        """Attention sublayer with its residual; writes the new keys and values into the cache.

        Args:
            hidden: `[batch, width, hidden]`.
            span: The pass.
            keys, values: This layer's cache, `[batch * kv_heads, capacity, head_dim]`.
        """
        queries, new_keys, new_values = self._project(hidden, span.rotation)
        self._write(new_keys, new_values, span, keys, values)
        if queries.device.type != "cpu":
            queries = queries.to(hidden.dtype)
        mixed = attend(queries, keys[:, : span.stop], values[:, : span.stop], span.bias, self.kv_heads)
        return hidden + cast(Tensor, self.output(mixed.to(hidden.dtype)))

    def attention_causal(self, hidden: Tensor, rotation: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attention sublayer over whole sequences without a cache; differentiable."""
        queries, keys, values = self._project(hidden, rotation)
        mixed = attend_causal(queries.to(values.dtype), keys.to(values.dtype), values, mask)
        return hidden + cast(Tensor, self.output(mixed))

    def feed_forward(self, hidden: Tensor) -> Tensor:
        """Feed-forward sublayer with its residual."""
        gate, up = self.gate_up(self.feed_forward_norm(hidden)).chunk(2, -1)
        return hidden + cast(Tensor, self.down(F.silu(gate) * up))

    def forward(self, hidden: Tensor, span: Span, keys: Tensor, values: Tensor) -> Tensor:
        """Both sublayers over the cache."""
        return self.feed_forward(self.attention(hidden, span, keys, values))

    def forward_causal(self, hidden: Tensor, rotation: Tensor, mask: Tensor | None = None) -> Tensor:
        """Both sublayers without a cache; differentiable."""
        return self.feed_forward(self.attention_causal(hidden, rotation, mask))

    def _project(self, hidden: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated fp32 queries (divided by √head_dim) and keys, plain values: `[batch, width, heads, head_dim]`."""
        heads = self.qkv(self.attention_norm(hidden)).unflatten(-1, (-1, self.head_dim))
        rotated, values = heads.split((self.heads + self.kv_heads, self.kv_heads), 2)
        if self.query_norm is not None and self.key_norm is not None:
            queries, keys = rotated.split((self.heads, self.kv_heads), 2)
            rotated = torch.cat((self.query_norm(queries), self.key_norm(keys)), 2)
        pairs = torch.view_as_complex(rotated.float().unflatten(-1, (-1, 2)))
        rotated = torch.view_as_real(pairs * rotation).flatten(-2)
        queries, keys = rotated.split((self.heads, self.kv_heads), 2)
        return queries * self._scale, keys, values

    def _write(self, new_keys: Tensor, new_values: Tensor, span: Span, keys: Tensor, values: Tensor) -> None:
        width = new_keys.shape[1]
        if span.start is not None:
            keys[:, span.start : span.start + width] = new_keys.transpose(1, 2).flatten(0, 1)
            values[:, span.start : span.start + width] = new_values.transpose(1, 2).flatten(0, 1)
            return
        assert span.slots is not None
        rows = torch.arange(len(span.slots), device=keys.device)[:, None]
        for store, new in ((keys, new_keys), (values, new_values)):
            by_row = store.unflatten(0, (-1, self.kv_heads))
            by_row[rows, :, span.slots] = new.to(store.dtype)

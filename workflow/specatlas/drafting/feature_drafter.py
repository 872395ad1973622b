"""Drafting trees with a feature head: what EAGLE and its successors share; they differ in how they grow the tree."""

import torch
from torch import Tensor

from specatlas.drafting.feature_head import FeatureHead
from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.cache import KVCache
from specatlas.engine.drafter import Context, Drafter, Step
from specatlas.engine.span import plan_span
from specatlas.engine.transformer import NORMED, Transformer


class FeatureDrafter(Drafter):
    """Keeps the head in step with the committed tokens and expands tree nodes; a method implements `propose`.

    Args:
        target: The target, whose embeddings the head reads.
        head: The feature head.
        vocabulary: The rows of the target's head that it drafts with.
    """

    taps = (NORMED,)

    def __init__(self, target: Transformer, head: FeatureHead, vocabulary: SubsetHead) -> None:
        super().__init__()
        self.head, self.vocabulary, self._target = head, vocabulary, target
        self.extra_parameters = sum(
            linear.inputs * linear.outputs
            for linear in (head.fuse, head.layer.qkv, head.layer.output, head.layer.gate_up, head.layer.down)
        )
        self.last: Tensor
        self._cache: KVCache | None = None

    def start(self, context: Context) -> None:
        """Reads the prompt: pairs of each prompt feature and the token after it, the first answer token last."""
        if self._cache is None or self._cache.batch != context.batch:
            longest = max(map(len, context.tokens))
            dtype = torch.float32 if context.device.type == "cpu" else self._target.dtype
            self._cache = KVCache(
                self.head.architecture, context.batch, 2 * longest, dtype=dtype, device=context.device
            )
        self._cache.reset()
        features = context.prompt_taps[NORMED]
        self._pending = [row[1:] for row in context.tokens]
        self._read(features)

    def observe(self, context: Context, step: Step) -> None:
        """Reads the true features of what was accepted, each with the token after it."""
        places = [
            [0, *(1 + node for node in path[: len(new) - 1])][: len(new)]
            for path, new in zip(step.paths, step.emitted, strict=True)
        ]
        width = max(map(len, places))
        index = torch.tensor([[*row, *[0] * (width - len(row))] for row in places], device=context.device)
        features = step.taps[NORMED]
        self._pending = step.emitted
        self._read(features.gather(1, index.unsqueeze(2).expand(-1, -1, features.shape[2])))

    def _read(self, features: Tensor) -> None:
        """Feeds `(features, pending tokens)`; keeps the predicted feature after each row's last pair."""
        assert self._cache is not None
        widths = [len(row) for row in self._pending]
        width = max(widths)
        tokens = torch.tensor(
            [[*row, *[0] * (width - len(row))] for row in self._pending], dtype=torch.long, device=features.device
        )
        predicted = self._pass(tokens, features[:, :width], self._cache)
        self._cache.advance(widths)
        ends = (torch.tensor(widths, device=features.device) - 1).clamp(min=0)
        last = predicted[torch.arange(len(widths), device=features.device), ends]
        self.last = (
            last
            if min(widths) > 0
            else torch.where(torch.tensor(widths, device=features.device).unsqueeze(1) > 0, last, self.last)
        )

    def new_branch(self) -> KVCache:
        """Scratch over the head's cache, for one draft."""
        assert self._cache is not None
        return self._cache.branch()

    def expand(self, branch: KVCache, tokens: Tensor, features: Tensor, visible: Tensor, depth: int) -> Tensor:
        """Predicted features after tree nodes of one level.

        Args:
            branch: Scratch that already holds the levels above; it is advanced.
            tokens: `[batch, level]` ids of the nodes.
            features: `[batch, level, hidden]` predicted features of their parents.
            visible: bool `[batch or 1, level, drafted so far + level]`: the node's ancestors and itself among all nodes
                drafted in this step, in order.
            depth: Of these nodes; 1 for the root's children.
        """
        assert self._cache is not None
        starts = torch.tensor(self._cache.lengths, device=tokens.device).unsqueeze(1)
        # Position t holds the pair (f_t, x_{t+1}); the root closed pair `length - 1`, its children open `length`.
        positions = (starts + depth - 1).expand(-1, tokens.shape[1])
        predicted = self._pass(tokens, features, branch, positions, visible)
        branch.advance([tokens.shape[1]] * tokens.shape[0])
        return predicted

    def _pass(
        self,
        tokens: Tensor,
        features: Tensor,
        cache: KVCache,
        positions: Tensor | None = None,
        visible: Tensor | None = None,
    ) -> Tensor:
        span = plan_span(self.head.rotary, cache, tokens.shape[1], positions, visible)
        fused = self.head.fused(self._target.embed(tokens), features)
        self.passes += 1
        return self.head.layer(fused, span, 0)  # type: ignore[no-any-return]

    def guesses(self, features: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """(log-probabilities, ids) of the likeliest next tokens after predicted features, `[..., count]` each."""
        return self.vocabulary.topk(self.vocabulary.logits(features), count)

"""An independent draft language model with its own cache, drafting chains."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specatlas.drafting.vocabulary import SubsetHead
from specatlas.engine.cache import KVCache
from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Step
from specatlas.engine.sampling import DRAFT_STREAM, choose
from specatlas.engine.transformer import Transformer, pad_rows
from specatlas.errors import VocabularyMismatch

PREFILL_CHUNK = 512


class DraftModel:
    """Keeps a draft model in step with the committed tokens and samples chains from it.

    Args:
        model: The draft model; its input vocabulary is the target's.
        head: Its head, over all or the most frequent tokens.
        vocabulary: The target's vocabulary size.

    Raises:
        VocabularyMismatch: The draft model's embeddings are not those of the target's vocabulary.
    """

    def __init__(self, model: Transformer, head: SubsetHead, vocabulary: int) -> None:
        if model.architecture.vocabulary != vocabulary:
            raise VocabularyMismatch(
                f"The draft model has a vocabulary of {model.architecture.vocabulary}, the target of {vocabulary}; "
                "use a draft model trained for this target."
            )
        self.model, self.head = model, head
        self.passes = 0
        self._cache: KVCache | None = None
        self._committed: list[int] = []

    def start(self, context: Context) -> None:
        """Prefills the prompts."""
        self.passes = 0
        longest = max(map(len, context.tokens))
        if self._cache is None or self._cache.batch != context.batch:
            self._cache = self.model.new_cache(context.batch, longest + 128)
        self._cache.reset()
        prompts = [row[:-1] for row in context.tokens]
        tokens = pad_rows(prompts, self.model.device)
        for start in range(0, tokens.shape[1], PREFILL_CHUNK):
            part = tokens[:, start : start + PREFILL_CHUNK]
            self.model(part, self._cache)
            self._cache.advance([part.shape[1]] * context.batch)
            self.passes += 1
        self._cache.rewind([len(prompt) for prompt in prompts])

    def chain(self, context: Context, lengths: Sequence[int]) -> Draft:
        """Drafts `lengths[row]` tokens a row, sampled as the settings say (argmax at temperature 0)."""
        limits = self._limits(context, lengths)
        longest = max(limits)
        assert self._cache is not None
        self._committed = list(self._cache.lengths)
        if longest == 0:
            return Draft.empty(context.batch, context.device)
        uniforms = None if context.settings.greedy else context.uniforms(longest, DRAFT_STREAM)
        tokens: list[Tensor] = []
        distributions: list[Tensor] = []
        hidden = self._catch_up(context)
        for place in range(longest):
            logits = self.head.logits(self.model.norm(hidden))
            if uniforms is None:
                tokens.append(self.head.argmax(logits))
            else:
                distributions.append(self.head.distribution(logits, context.settings))
                tokens.append(choose(distributions[-1], uniforms[:, place]))
            if place < longest - 1:
                hidden = self._advance(tokens[-1].unsqueeze(1), [1] * context.batch)[:, -1]
        q = torch.stack(distributions, 1) if distributions else None
        return Draft(torch.stack(tokens, 1), limits, q=q)

    def observe(self, step: Step) -> None:
        """Drops what the target rejected from the draft model's cache."""
        if self._cache is None:
            return
        kept = [
            min(length, committed + len(path))
            for length, committed, path in zip(self._cache.lengths, self._committed, step.paths, strict=True)
        ]
        self._cache.rewind(kept)

    def _limits(self, context: Context, lengths: Sequence[int]) -> list[int]:
        """No draft beyond the draft model's own context: there the step falls back to plain decoding."""
        room = self.model.architecture.context
        return [max(0, min(length, room - len(row))) for length, row in zip(lengths, context.tokens, strict=True)]

    def _catch_up(self, context: Context) -> Tensor:
        """Feeds the committed tokens that the cache lacks; hidden state at each root, `[batch, hidden]`."""
        assert self._cache is not None
        pending = [row[length:] for row, length in zip(context.tokens, self._cache.lengths, strict=True)]
        widths = [len(row) for row in pending]
        hidden = self._advance(pad_rows(pending, self.model.device), widths)
        self._committed = list(self._cache.lengths)
        if min(widths) == max(widths):
            return hidden[:, -1]
        ends = torch.tensor(widths, device=hidden.device) - 1
        return hidden[torch.arange(len(widths), device=hidden.device), ends]

    def _advance(self, tokens: Tensor, widths: Sequence[int]) -> Tensor:
        assert self._cache is not None
        hidden: Tensor = self.model(tokens, self._cache).hidden
        self._cache.advance(widths)
        self.passes += 1
        return hidden

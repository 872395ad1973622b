"""How good a skipped set drafts, judged on the target's own plain answers without decoding anything."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specatlas.drafting.target_head import Head
from specatlas.engine.cache import KVCache
from specatlas.engine.transformer import LayerPlan, Transformer

from .method import confidence


@dataclass(frozen=True)
class Text:
    """A prompt and the target's plain answer to it, at least two tokens."""

    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True)
class Marks:
    """What a draft would have been, token by token, in rounds that all start from the target's own text.

    Attributes:
        right: By round: whether the draft pass picks the target's token.
        sure: By round: its confidence.
    """

    right: list[list[bool]]
    sure: list[list[float]]

    @property
    def positions(self) -> int:
        """Tokens judged."""
        return sum(map(len, self.right))

    @property
    def matched(self) -> int:
        """Tokens that the draft pass got right."""
        return sum(map(sum, self.right))

    def rounds(self, threshold: float) -> list[tuple[int, int]]:
        """(drafted, accepted) of each round when drafting stops below `threshold`."""
        result = []
        for right, sure in zip(self.right, self.sure, strict=True):
            drafted = next((place + 1 for place, p in enumerate(sure) if p < threshold), len(sure))
            accepted = next((place for place, hit in enumerate(right[:drafted]) if not hit), drafted)
            result.append((drafted, accepted))
        return result


class Exam:
    """Runs draft passes over the answers, cut into rounds of the longest draft.

    Within a round the draft reads its own keys, before it the full model's: exactly what it reads while decoding, as
    long as everything is accepted. So one wide pass stands for many narrow ones.

    Args:
        target: The target.
        head: Head of the draft passes.
        texts: Plain answers.
        length: Longest draft, in tokens.
    """

    def __init__(self, target: Transformer, head: Head, texts: Sequence[Text], length: int) -> None:
        self._target, self._head, self._texts, self._length = target, head, texts, length
        self._caches = [self._prefilled(text) for text in texts]

    @torch.inference_mode()
    def marks(self, plan: LayerPlan) -> Marks:
        """Judges one skipped set."""
        right: list[list[bool]] = []
        sure: list[list[float]] = []
        for text, cache in zip(self._texts, self._caches, strict=True):
            answer = torch.tensor([text.answer], device=self._target.device)
            positions = torch.arange(answer.shape[1] - 1, device=answer.device)[None]
            mask = round_mask(positions[0], self._length)
            done = self._target(
                answer[:, :-1], cache.branch(), positions=len(text.prompt) + positions, mask=mask, plan=plan
            )
            logits = self._head.logits(self._target.norm(done.hidden))
            hits = (self._head.argmax(logits) == answer[:, 1:])[0].tolist()
            certain = confidence(logits)[0].tolist()
            for start in range(0, len(hits), self._length):
                right.append(hits[start : start + self._length])
                sure.append(certain[start : start + self._length])
        return Marks(right, sure)

    @torch.inference_mode()
    def _prefilled(self, text: Text) -> KVCache:
        tokens = torch.tensor([[*text.prompt, *text.answer[:-1]]], device=self._target.device)
        cache = self._target.new_cache(1, tokens.shape[1] + len(text.answer))
        self._target(tokens, cache)
        cache.advance([tokens.shape[1]])
        return cache


def round_mask(index: Tensor, length: int) -> Tensor:
    """Which keys a drafted position sees, `[1, positions, 2 · positions]`: the full model's, then the draft's own."""
    own_round = index // length
    earlier = index < (own_round * length)[:, None]
    own = (own_round == own_round[:, None]) & (index <= index[:, None])
    return torch.cat((earlier, own), 1)[None]

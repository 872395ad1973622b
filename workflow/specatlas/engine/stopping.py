"""Where an answer ends: EOS, stop strings, the limit. One rule for every arm; ids are the truth, text derives."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Finish = Literal["eos", "stop_string", "length"]


@dataclass(frozen=True)
class StopConditions:
    """When generation ends.

    Attributes:
        max_new_tokens: Exact limit, the token from the prefill included.
        eos_ids: None, one or several ids; the EOS token is kept in the answer.
        stop_strings: The answer ends with the token that completes one of them.
        decode: Ids to text; needed for stop strings only.
    """

    max_new_tokens: int
    eos_ids: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ValueError("max_new_tokens must be at least 1.")
        if self.stop_strings and self.decode is None:
            raise ValueError("stop strings need a way to decode ids.")

    def trim(self, answer: Sequence[int], block: Sequence[int]) -> tuple[list[int], Finish | None]:
        """Cuts a newly emitted block where the answer ends.

        Args:
            answer: Ids generated before the block.
            block: Ids that the step would emit.

        Returns:
            What is kept of the block, and why the answer ends there, or None if it goes on.
        """
        kept, finish = list(block), None
        limit = self.max_new_tokens - len(answer)
        if len(kept) >= limit:
            kept, finish = kept[:limit], "length"
        for place, token in enumerate(kept):
            if token in self.eos_ids:
                kept, finish = kept[: place + 1], "eos"
                break
        stop = self._stop_string(answer, kept)
        if stop is not None and (stop < len(kept) or finish != "eos"):
            return kept[:stop], "stop_string"
        return kept, finish  # type: ignore[return-value]

    def _stop_string(self, answer: Sequence[int], block: Sequence[int]) -> int | None:
        """Length of the shortest prefix of `block` with which a stop string is complete, anywhere in the text."""
        if not self.stop_strings:
            return None
        assert self.decode is not None
        if not self._contains([*answer, *block]):
            return None
        lengths = range(1, len(block) + 1)
        return next(length for length in lengths if self._contains([*answer, *block[:length]]))

    def _contains(self, ids: Sequence[int]) -> bool:
        assert self.decode is not None
        text = self.decode(ids)
        return any(stop in text for stop in self.stop_strings)


def normalise_eos(eos: int | Iterable[int] | None) -> frozenset[int]:
    """EOS ids as a set, whether a checkpoint declares none, one or several."""
    if eos is None:
        return frozenset()
    return frozenset((eos,)) if isinstance(eos, int) else frozenset(eos)

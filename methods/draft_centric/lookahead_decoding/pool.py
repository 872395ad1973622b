"""What the window has found: n-grams by their first token."""

from collections.abc import Sequence


class NgramPool:
    """Keeps, for every first token, the most recent n-grams that began with it.

    Args:
        size: N-grams kept a first token.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        # Dictionaries, since they keep their order: the oldest n-gram first.
        self._by_first: dict[int, dict[tuple[int, ...], None]] = {}

    def add(self, ngram: Sequence[int]) -> None:
        """Adds an n-gram, or makes it the most recent; the oldest gives way."""
        kept = self._by_first.setdefault(ngram[0], {})
        rest = tuple(ngram[1:])
        kept.pop(rest, None)
        kept[rest] = None
        if len(kept) > self._size:
            del kept[next(iter(kept))]

    def continuations(self, first: int) -> list[tuple[int, ...]]:
        """What followed `first` in its n-grams, the most recent first."""
        return list(reversed(self._by_first.get(first, {})))

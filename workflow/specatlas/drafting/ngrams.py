"""An index of n-grams that grows with the text: one dictionary operation per length and token."""

from collections.abc import Sequence


class NgramIndex:
    """Remembers, for every n-gram of lengths `shortest`…`longest`, where it first ended.

    Args:
        shortest: Shortest n-gram indexed.
        longest: Longest n-gram indexed.
    """

    def __init__(self, shortest: int, longest: int) -> None:
        self.shortest, self.longest = shortest, longest
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""
        for token in tokens:
            self._tokens.append(token)
            end = len(self._tokens)
            for length in range(self.shortest, min(self.longest, end) + 1):
                self._ends.setdefault(tuple(self._tokens[end - length :]), end)

    def continuation(self, limit: int) -> list[int]:
        """Up to `limit` tokens after the first earlier occurrence of the longest matching suffix; may be none."""
        end = len(self._tokens)
        for length in range(min(self.longest, end), self.shortest - 1, -1):
            earlier = self._ends[tuple(self._tokens[end - length :])]
            if earlier < end:
                return self._tokens[earlier : earlier + limit]
        return []

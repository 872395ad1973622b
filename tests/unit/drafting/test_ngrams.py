"""The n-gram index against a slow search."""

from hypothesis import given
from hypothesis import strategies as st

from specatlas.drafting.ngrams import NgramIndex


def slow(tokens, limit, shortest, longest):
    for length in range(min(longest, len(tokens)), shortest - 1, -1):
        suffix = tokens[len(tokens) - length :]
        for start in range(len(tokens) - length):
            if tokens[start : start + length] == suffix:
                return tokens[start + length : start + length + limit]
    return []


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 3), st.integers(0, 3), st.integers(0, 6))
def test_continuation_equals_a_slow_search(tokens, shortest, more, limit):
    index = NgramIndex(shortest, shortest + more)
    index.extend(tokens)
    assert index.continuation(limit) == slow(tokens, limit, shortest, shortest + more)


def test_a_single_token_has_no_continuation():
    index = NgramIndex(1, 3)
    assert index.continuation(5) == []
    index.extend([7])
    assert index.continuation(5) == []

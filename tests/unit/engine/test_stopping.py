"""Where answers end, whatever blocks they come in."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specatlas.engine.stopping import StopConditions, normalise_eos

ids = st.lists(st.integers(0, 5), min_size=1, max_size=14)


def text(tokens):
    """Some tokens have no letter of their own, some have two, as byte-level tokens do."""
    return "".join(("a", "b", "ab", "", "c", "ba")[token] for token in tokens)


def conditions(limit, eos, strings):
    return StopConditions(limit, frozenset(eos), tuple(strings), text)


def in_blocks(stop, tokens, borders):
    """Feeds tokens block by block, as a decoding loop does."""
    answer, finish = [], None
    for start, end in itertools.pairwise([0, *borders, len(tokens)]):
        kept, finish = stop.trim(answer, tokens[start:end])
        answer += kept
        if finish is not None:
            break
    return answer, finish


@given(
    ids,
    st.integers(1, 14),
    st.sets(st.integers(0, 5), max_size=2),
    st.lists(st.sampled_from(["ab", "ba", "aba", "cb", "aa"]), max_size=2),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_any_partition_into_blocks_ends_alike(tokens, limit, eos, strings, data):
    """Token by token is the reference: that is what plain decoding does."""
    stop = conditions(limit, eos, strings)
    expected = in_blocks(stop, tokens, range(1, len(tokens)))
    borders = sorted(data.draw(st.sets(st.integers(1, max(1, len(tokens) - 1)), max_size=6)) - {len(tokens)})
    assert in_blocks(stop, tokens, borders) == expected
    answer, finish = expected
    assert answer == tokens[: len(answer)]
    assert len(answer) <= limit
    if finish is None:
        assert len(answer) == len(tokens) < limit
    if finish == "eos":
        assert answer[-1] in eos
    if finish == "stop_string":
        assert any(string in text(answer) for string in strings)
    assert not eos & set(answer[:-1])
    assert not any(string in text(answer[:-1]) for string in strings)


@pytest.mark.parametrize(
    ("limit", "block", "expected"),
    [
        (5, [1, 9, 2], ([1, 9], "eos")),
        (2, [1, 9, 2], ([1, 9], "eos")),
        (1, [1, 9, 2], ([1], "length")),
        (9, [9], ([9], "eos")),
        (3, [1, 2, 3], ([1, 2, 3], "length")),
        (4, [1, 2, 3], ([1, 2, 3], None)),
        (4, [1, 8, 9], ([1, 8], "eos")),
    ],
)
def test_eos_is_kept_and_the_limit_is_exact(limit, block, expected):
    assert StopConditions(limit, frozenset({8, 9})).trim([], block) == expected


def test_without_eos_nothing_ends_before_the_limit():
    assert StopConditions(9).trim([1, 2], [0, 3]) == ([0, 3], None)


def test_what_ends_first_counts():
    letters = lambda tokens: "".join("abcdefgh"[token] for token in tokens)  # noqa: E731
    stop = StopConditions(6, frozenset({4}), ("cd",), letters)
    assert stop.trim([2], [3, 4]) == ([3], "stop_string"), "begun in the last block, complete before the EOS"
    end = StopConditions(6, frozenset({4}), ("de",), letters)
    assert end.trim([3], [4, 0]) == ([4], "eos"), "the EOS itself completes the string"
    assert stop.trim([0], [4, 2, 3]) == ([4], "eos"), "complete only after the EOS"
    assert stop.trim([0, 0, 0], [1, 2, 3]) == ([1, 2, 3], "stop_string"), "complete exactly at the limit"
    assert stop.trim([0, 0, 0, 0], [1, 2, 3]) == ([1, 2], "length"), "complete only beyond the limit"


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        StopConditions(0)
    with pytest.raises(ValueError, match="decode"):
        StopConditions(5, stop_strings=("x",))


@pytest.mark.parametrize(
    ("given_", "expected"), [(None, set()), (0, {0}), (7, {7}), ([1, 2], {1, 2}), ((3,), {3}), (range(2), {0, 1})]
)
def test_eos_ids_are_a_set_whatever_the_checkpoint_says(given_, expected):
    assert normalise_eos(given_) == expected

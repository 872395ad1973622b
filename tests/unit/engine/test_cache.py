"""The KV cache: commits with gaps, rolls back row by row, grows, branches, and copies views."""

import pytest
import torch

from specatlas.engine.cache import KVCache
from tests.support.models import tiny_architecture

ARCHITECTURE = tiny_architecture(layers=2, kv_heads=2)


def new(batch=2, capacity=8):
    return KVCache(ARCHITECTURE, batch, capacity, dtype=torch.float32, device=torch.device("cpu"))


def write(cache, start, count, value=0):
    """Stamps `count` slots of every row from `start`: value + 100 · row + slot, alike in all layers and heads."""
    for store in (*cache.keys, *cache.values):
        by_row = store.unflatten(0, (cache.batch, ARCHITECTURE.kv_heads))
        for row in range(cache.batch):
            for slot in range(start, start + count):
                by_row[row, :, slot] = value + 100 * row + slot


def slots(cache, row, layer=1):
    """What the committed slots of a row hold."""
    found = cache.keys[layer].unflatten(0, (cache.batch, ARCHITECTURE.kv_heads))[row, :, : cache.lengths[row]]
    assert torch.equal(found[0], found[1])
    values = cache.values[layer].unflatten(0, (cache.batch, ARCHITECTURE.kv_heads))[row, :, : cache.lengths[row]]
    assert torch.equal(values, found), "keys and values move together"
    return found[0, :, 0].int().tolist()


def filled(lengths=(3, 3)):
    cache = new()
    write(cache, 0, 8)
    cache.advance(lengths)
    return cache


def test_keep_drops_gaps_and_closes_ranks():
    cache = filled()
    cache.keep([[0, 2, 4], [0]])
    assert cache.lengths == [6, 4]
    assert slots(cache, 0) == [0, 1, 2, 3, 5, 7]
    assert slots(cache, 1) == [100, 101, 102, 103]


def test_keep_of_nothing_and_of_a_prefix():
    cache = filled((2, 3))
    cache.keep([[], [0, 1, 2]])
    assert cache.lengths == [2, 6]
    assert slots(cache, 0) == [0, 1]
    assert slots(cache, 1) == [100, 101, 102, 103, 104, 105]


def test_keep_moves_overlapping_slots():
    """A slot may be the source of one move and the destination of another."""
    cache = filled((0, 0))
    cache.keep([[1, 2, 3, 4, 5, 6, 7], [7]])
    assert slots(cache, 0) == [1, 2, 3, 4, 5, 6, 7]
    assert slots(cache, 1) == [107]


def test_rewind_row_by_row():
    cache = filled((5, 3))
    cache.rewind([2, 3])
    assert cache.lengths == [2, 3]
    write(cache, 2, 1, value=1000)
    cache.advance([1, 0])
    assert slots(cache, 0) == [0, 1, 1002]


@pytest.mark.parametrize("lengths", [[6, 3], [-1, 3], [5, 4]])
def test_rewind_refuses_to_grow_or_go_below_zero(lengths):
    with pytest.raises(ValueError, match="Cannot rewind"):
        filled((5, 3)).rewind(lengths)


def test_growth_keeps_content_and_leaves_zeros():
    cache = filled((8, 5))
    branch = cache.branch()
    before = [slots(cache, row) for row in (0, 1)]
    cache.reserve(20)
    assert cache.keys[0].shape[1] >= 28
    assert [slots(cache, row) for row in (0, 1)] == before
    assert not cache.keys[1][:, 8:].any(), "garbage times probability 0 could be NaN"
    assert slots(branch, 0) == before[0], "branches follow"
    cache.reserve(3)
    assert cache.keys[0].shape[1] < 60, "no growth without need"


def test_a_branch_shares_storage_but_not_lengths():
    cache = filled((3, 3))
    branch = cache.branch()
    branch.advance([2, 2])
    assert cache.lengths == [3, 3]
    write(branch, 3, 1, value=500)
    cache.advance([1, 1])
    assert slots(cache, 0) == [0, 1, 2, 503]
    branch.rewind([1, 1])
    assert cache.lengths == [4, 4]


def test_a_view_copies():
    cache = filled((6, 4))
    view = cache.view([[0, 1, 5], [3]], room=2)
    assert view.lengths == [3, 1]
    assert slots(view, 0) == [0, 1, 5]
    assert slots(view, 1) == [103]
    assert view.keys[0].shape[1] == 5
    write(view, 0, 5, value=900)
    assert slots(cache, 0) == [0, 1, 2, 3, 4, 5]


def test_reset_forgets_everything():
    cache = filled()
    cache.reset()
    assert cache.lengths == [0, 0]
    assert (cache.batch, slots(cache, 0)) == (2, [])

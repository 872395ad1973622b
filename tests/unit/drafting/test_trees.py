"""Growing trees: static ones from acceptance tables, dynamic ones from the drafter's confidence."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specatlas.drafting.best_first import GrowingTree
from specatlas.drafting.static_tree import StaticTree, grow_static_tree

TABLE = [[0.6, 0.2, 0.1], [0.5, 0.25], [0.4]]


def value(paths, table):
    total = 0.0
    for path in paths:
        product = 1.0
        for depth, rank in enumerate(path):
            product *= table[depth][rank]
        total += product
    return total


def test_best_first_growth_is_optimal():
    every = [path for depth in (1, 2, 3) for path in itertools.product(*[range(len(TABLE[d])) for d in range(depth)])]
    for nodes in range(1, 7):
        closed = [
            chosen
            for chosen in itertools.combinations(every, nodes)
            if all(path[:-1] in chosen or len(path) == 1 for path in chosen)
        ]
        best = max(value(chosen, TABLE) for chosen in closed)
        assert value(grow_static_tree(TABLE, nodes).paths, TABLE) == pytest.approx(best)


def test_static_tree_lists_parents_first_and_stops_at_the_table():
    tree = grow_static_tree(TABLE, 1000)
    assert len(tree.paths) == 3 + 6 + 6
    assert tree.depth == 3
    assert all(parent < node for node, parent in enumerate(tree.parents.tolist()))
    assert StaticTree(()).depth == 0


def test_topology_of_a_known_tree():
    tree = StaticTree(((0,), (1,), (0, 0), (0, 0, 0)))
    assert tree.parents.tolist() == [-1, -1, 0, 2]
    assert tree.topology.depths.tolist() == [[0, 1, 1, 2, 3]]
    assert tree.topology.ancestors[0, 4].tolist() == [True, True, False, True, True]


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(0, 3))
def test_the_best_nodes_form_a_tree(seed, nodes, budget):
    generator = torch.Generator().manual_seed(seed)
    tree = GrowingTree()
    values = torch.rand(1, 3, generator=generator).log()
    tree.add_level(torch.tensor([[10, 11, 12]]), torch.full((1, 3), -1), values)
    for level in (1, 2):
        parents = torch.arange(tree.size - 3 * level, tree.size)[:3].repeat_interleave(3).unsqueeze(0)
        above = torch.cat(tree.values, 1).gather(1, parents)
        tree.add_level(parents * 10, parents, above + torch.rand(1, 9, generator=generator).log())
    draft = tree.best(nodes, [budget])
    assert draft.counts[0] <= nodes
    assert (draft.counts[0] == 0) == (budget == 0)
    depths = []
    for node, parent in enumerate(draft.parent_lists()[0]):
        assert -1 <= parent < node
        depths.append(1 if parent < 0 else depths[parent] + 1)
    assert max(depths, default=0) <= budget


def test_the_most_valuable_nodes_are_kept():
    tree = GrowingTree()
    tree.add_level(torch.tensor([[1, 2]]), torch.tensor([[-1, -1]]), torch.tensor([[0.9, 0.1]]).log())
    tree.add_level(
        torch.tensor([[3, 4, 5, 6]]), torch.tensor([[0, 0, 1, 1]]), torch.tensor([[0.8, 0.05, 0.09, 0.01]]).log()
    )
    draft = tree.best(3, [5])
    assert draft.tokens.tolist() == [[1, 2, 3]]
    assert draft.parents.tolist() == [[-1, -1, 0]]

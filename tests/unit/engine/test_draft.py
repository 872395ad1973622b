"""Drafts and topologies against slow references on random trees."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specatlas.engine.decoding import Decoder
from specatlas.engine.draft import Draft, Probes, Topology
from specatlas.engine.drafter import Drafter
from specatlas.engine.layout import lay_out
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.verification import make_rule
from specatlas.errors import InvalidDraft
from tests.support.models import tiny_transformer

CPU = torch.device("cpu")


@st.composite
def trees(draw, most=9):
    """Parents of a random tree, parents first."""
    return [draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(0, most)))]


def ancestors_of(node, parents):
    """The node, everything above it, and the root (-1)."""
    chain = [node]
    while chain[-1] >= 0:
        chain.append(parents[chain[-1]])
    return chain


def batch_of(rows, fill=-1):
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.long).view(len(rows), width)


@given(st.lists(trees(), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_topology_against_brute_force(rows):
    topology = Topology.of(batch_of(rows))
    for row, parents in enumerate(rows):
        for node in range(-1, len(parents)):
            above = ancestors_of(node, parents)
            seen = {place - 1 for place in topology.ancestors[row, node + 1].nonzero().flatten().tolist()}
            assert seen == set(above)
            assert int(topology.depths[row, node + 1]) == len(above) - 1


def test_topology_of_a_deep_chain():
    topology = Topology.of(torch.arange(-1, 63)[None])
    assert topology.depths.tolist() == [list(range(65))]
    assert torch.equal(topology.ancestors[0], torch.ones(65, 65, dtype=torch.bool).tril())


def made(rows, *, sampled=False, probes=0):
    """A draft over random trees; each node's token and q are its own, so that they can be told apart."""
    batch, nodes = len(rows), max(map(len, rows))
    tokens = torch.arange(nodes).expand(batch, -1) + 10
    q = torch.rand(batch, nodes, 50) if sampled else None
    made_probes = None
    if probes:
        visible = torch.rand(batch, probes, 1 + nodes + probes) > 0.5
        made_probes = Probes(torch.zeros(batch, probes, dtype=torch.long), torch.ones(1, probes), visible)
    return Draft(tokens, [len(row) for row in rows], batch_of(rows), q, probes=made_probes)


@given(st.lists(trees(), min_size=1, max_size=3), st.data())
@settings(max_examples=60, deadline=None)
def test_clipping_keeps_exactly_the_shallow_nodes(rows, data):
    limits = [data.draw(st.integers(0, 5)) for _ in rows]
    draft = made(rows, sampled=True, probes=2)
    clipped = draft.clipped(limits)
    clipped.check(50)
    for row, (parents, limit) in enumerate(zip(rows, limits, strict=True)):
        kept = [node for node in range(len(parents)) if len(ancestors_of(node, parents)) - 1 <= limit]
        assert clipped.counts[row] == len(kept)
        assert clipped.tokens[row, : len(kept)].tolist() == [10 + node for node in kept]
        for place, node in enumerate(kept):
            parent = clipped.parent_lists()[row][place]
            assert (kept[parent] if parent >= 0 else -1) == parents[node], "the same parent under its new number"
            source = place if clipped.q_rows is None else int(clipped.q_rows[row, place])
            assert torch.equal(clipped.q[row, source], draft.q[row, node])
            seen = clipped.probes.visible[row, :, 1 + place]
            assert torch.equal(seen, draft.probes.visible[row, :, 1 + node])
        assert torch.equal(clipped.probes.visible[row, :, 0], draft.probes.visible[row, :, 0])
        assert torch.equal(clipped.probes.visible[row, :, -2:], draft.probes.visible[row, :, -2:])


def test_clipping_chains():
    draft = Draft.chains([[1, 2, 3, 4], [5], [6, 7]], CPU)
    assert draft.clipped([9, 9, 9]) is draft
    clipped = draft.clipped([4, 0, 1])
    assert clipped.counts == [4, 0, 1]
    assert torch.equal(clipped.tokens, draft.tokens)
    narrow = draft.clipped([2, 1, 0])
    assert narrow.counts == [2, 1, 0]
    assert narrow.tokens.shape == (3, 2)
    assert narrow.tokens[0].tolist() == [1, 2]
    assert draft.clipped([0, 0, 0]).nodes == 0


def test_chains_of_nothing():
    empty = Draft.chains([[], []], CPU)
    assert empty.tokens.shape == (2, 0)
    empty.check(5)
    assert empty.clipped([0, 3]).counts == [0, 0]
    assert empty.parent_lists() == [[], []]
    layout = lay_out(empty, [7, 8], [3, 4])
    assert layout.tokens.tolist() == [[7], [8]]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Draft(torch.zeros(2, 3, dtype=torch.long), [3]), "counts"),
        (Draft(torch.zeros(1, 3, dtype=torch.long), [4]), "counts"),
        (Draft(torch.zeros(1, 3, dtype=torch.long), [-1]), "counts"),
        (Draft(torch.tensor([[1, 50]]), [2]), "vocabulary of 50"),
        (Draft(torch.tensor([[1, -1]]), [2]), "vocabulary of 50"),
        (Draft(torch.tensor([[1, 2]]), [2], torch.tensor([[1, 0]])), "earlier nodes"),
        (Draft(torch.tensor([[1, 2]]), [2], torch.tensor([[-1, 1]])), "earlier nodes"),
        (Draft(torch.tensor([[1, 2]]), [2], torch.tensor([[-2, 0]])), "earlier nodes"),
        (Draft(torch.tensor([[1, 2]]), [2], q=torch.zeros(1, 2, 49)), "q has shape"),
        (Draft(torch.tensor([[1, 2]]), [2], q=torch.zeros(2, 2, 50)), "q has shape"),
    ],
)
def test_what_breaks_the_contract_is_refused(broken, says):
    with pytest.raises(InvalidDraft, match=says):
        broken.check(50)


def test_a_malformed_tree_is_refused_before_it_is_clipped():
    """Clipping walks the tree, so a cycle that is deeper than the budget would crash there."""

    class Cycle(Drafter):
        def propose(self, context):
            return Draft(torch.tensor([[1, 2, 3, 4]]), [4], torch.tensor([[3, 0, 1, 2]]))

    decoder = Decoder(tiny_transformer(), Cycle(), make_rule("greedy"), SamplingSettings(), check=True)
    with pytest.raises(InvalidDraft, match="earlier nodes"):
        decoder.generate([[1, 2, 3]], StopConditions(4), [0])


def test_layout_of_a_tree_with_probes():
    """Root, nodes, probes side by side; nodes never see probes, probes see what they say."""
    visible = torch.tensor([[[True, False, True, True]]])
    probes = Probes(torch.tensor([[9]]), torch.tensor([[5]]), visible)
    draft = Draft(torch.tensor([[3, 4]]), [2], torch.tensor([[-1, -1]]), probes=probes)
    layout = lay_out(draft, [7], [10])
    assert layout.tokens.tolist() == [[7, 3, 4, 9]]
    assert layout.positions.tolist() == [[10, 11, 11, 15]]
    assert layout.mask.int().tolist() == [[[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]]


def test_an_empty_draft_with_probes_is_a_legal_step():
    probes = Probes(torch.tensor([[9]]), torch.tensor([[2]]), torch.tensor([[[True, True]]]))
    layout = lay_out(Draft.empty(1, CPU, probes), [7], [10])
    assert layout.tokens.tolist() == [[7, 9]]
    assert layout.positions.tolist() == [[10, 12]]

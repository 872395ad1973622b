"""Section I: positions, trees, degenerate settings."""

import pytest
import torch

from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Drafter, PlainDrafter
from tests.faults.world import SAMPLED, decode, plain_answers, target
from tests.support.drafters import Scripted


class AsTree(Scripted):
    """The same chains, written as trees."""

    def propose(self, context):
        chain = super().propose(context)
        parents = torch.arange(-1, chain.nodes - 1).expand(context.batch, -1)
        return Draft(chain.tokens, chain.counts, parents)


@pytest.mark.fault("I04")
@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_a_chain_as_a_tree_is_a_chain(length):
    """No node, one node, a path: the same answers, counts and acceptance."""
    half = lambda token, index: token if index % 2 else (token + 1) % 61  # noqa: E731
    for alter in (lambda token, index: token, half):
        chains = decode(Scripted(plain_answers(), length, alter))
        trees = decode(AsTree(plain_answers(), length, alter))
        assert trees == chains
        sampled = decode(
            AsTree(plain_answers(), length, alter), rule="siblings_without_replacement", settings=SAMPLED, limit=12
        )
        assert all(len(row.ids) == 12 for row in sampled)


@pytest.mark.fault("I04", "G05")
def test_a_tree_without_nodes_is_a_legal_step():
    class Empty(Drafter):
        def propose(self, context):
            none = torch.empty((context.batch, 0), dtype=torch.long)
            return Draft(none, [0] * context.batch, none)

    for rule, settings in (("greedy", None), ("siblings_without_replacement", SAMPLED)):
        options = {"settings": settings} if settings else {}
        rows = decode(Empty(), rule=rule, **options)
        assert all(row.emitted == [1] * 23 for row in rows)


@pytest.mark.fault("I05", "L09")
def test_an_error_in_the_middle_of_a_draft_leaves_the_target_as_it_was():
    """Nothing is switched off and on again around a draft, so nothing can stay off."""
    from tests.faults.world import method

    model = target()
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    drafter, _ = method("draft_and_verify", model)

    class Interrupted(Drafter):
        def start(self, context):
            drafter.start(context)

        def propose(self, context):
            draft = drafter.propose(context)
            if context.answer_lengths[0] > 4:
                raise KeyboardInterrupt
            return draft

    with pytest.raises(KeyboardInterrupt):
        decode(Interrupted())
    assert [row.ids for row in decode(PlainDrafter())] == [ids[:24] for ids in plain_answers()]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.named_parameters())


@pytest.mark.fault("I02")
def test_running_all_layers_of_the_target_as_the_draft_accepts_everything():
    """Early exit after the last layer is no exit: positions and cache of a partial run are right."""
    from specatlas.engine.transformer import LayerPlan

    model = target()

    class EarlyExit(Drafter):
        def propose(self, context):
            branch, token, tokens = context.cache.branch(), torch.tensor(context.roots), []
            for _ in range(4):
                hidden = model.embed(token[:, None])
                for start, stop in ((0, 1), (1, 3)):
                    plan = LayerPlan(start=start, stop=stop)
                    span = model.span(branch, 1)
                    hidden = model.run(hidden, span, plan).hidden
                branch.advance([1] * context.batch)
                token = model.logits(hidden)[:, -1].argmax(-1)
                tokens.append(token)
            return Draft(torch.stack(tokens, 1), [4] * context.batch)

    for row, ids in zip(decode(EarlyExit()), plain_answers(), strict=True):
        assert row.ids == ids[:24]
        assert row.accepted == row.drafted

"""An answer that ends with the context must not disturb the rows that go on."""

import pytest

from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.verification import make_rule
from tests.support.drafters import Scripted, ScriptedTree
from tests.support.models import tiny_transformer


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_padding_of_a_row_that_ended_lies_beyond_the_context(shape):
    target = tiny_transformer(61, seed=3, context=48)
    prompts, limit = [[1, 2] * 18, [3, 4, 5]], 12

    def decode(drafter, rows):
        decoder = Decoder(target, drafter, make_rule("greedy"), SamplingSettings())
        return [row.ids for row in decoder.generate(rows, StopConditions(limit), [0] * len(rows)).generations]

    truth = [decode(PlainDrafter(), [prompt])[0] for prompt in prompts]
    # The first row accepts everything and ends at once; the second one accepts nothing and goes on beside it.
    known = [truth[0], [(token + 1) % 61 for token in truth[1]]]
    drafter = Scripted(known, 5) if shape == "chain" else ScriptedTree(known, 5, 61)
    assert decode(drafter, prompts) == truth

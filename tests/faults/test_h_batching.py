"""Section H: batching and padding."""

import pytest

from specatlas.engine.drafter import PlainDrafter
from specatlas.errors import UnsupportedBatch
from tests.faults.world import PROMPTS, decode, plain_answers
from tests.support.drafters import Scripted, ScriptedTree


@pytest.mark.fault("H01", "H04")
def test_a_drafter_of_one_row_refuses_several():
    class Alone(PlainDrafter):
        batched = False

    assert decode(Alone(), PROMPTS[:1])[0].ids == plain_answers()[0][:24]
    with pytest.raises(UnsupportedBatch, match="Alone decodes one prompt at a time"):
        decode(Alone(), PROMPTS[:2])


@pytest.mark.fault("H02", "H03")
@pytest.mark.parametrize("longest", [8, 40])
def test_padding_of_any_length_changes_no_row(longest):
    """Each prompt beside a much longer one: positions and masks are the row's own."""
    neighbour = [(3 * place) % 61 for place in range(longest)]
    for row, prompt in enumerate(PROMPTS):
        for drafter in (PlainDrafter(), Scripted([[], plain_answers()[row]], 4),
                        ScriptedTree([[], plain_answers()[row]], 3, 61)):  # fmt: skip
            assert decode(drafter, [neighbour, prompt])[1].ids == plain_answers()[row][:24]


@pytest.mark.fault("H02")
def test_rows_that_ended_emit_and_count_nothing_more():
    """One row ends at once, its neighbours go on for many steps."""
    truth = plain_answers()
    eos = truth[0][1]
    rows = decode(Scripted(truth, 3), eos_ids=frozenset({eos}))
    for row, ids in zip(rows, truth, strict=True):
        end = ids.index(eos) + 1 if eos in ids[:24] else 24
        assert row.ids == ids[:end]
        assert sum(row.emitted) == end - 1
        assert len(row.emitted) == len(row.drafted) == len(row.probes)
    assert len({len(row.emitted) for row in rows}) > 1, "the rows must end at different steps"

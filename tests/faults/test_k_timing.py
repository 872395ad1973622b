"""Section K: timing. What the clock covers; the protocol around it is checked in tests/unit/measure."""

import time

import pytest

from specatlas.engine.decoding import Decoder
from specatlas.engine.drafter import PlainDrafter
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import make_rule
from tests.faults.world import GREEDY, PROMPTS, plain_answers, target
from tests.support.drafters import Scripted


def decoder_of(drafter, **options):
    return Decoder(target(), drafter, make_rule("greedy"), GREEDY, **options)


@pytest.mark.fault("K04", "K05", "J02")
@pytest.mark.parametrize("limit", [1, 6, 30])
def test_the_device_is_waited_for_at_the_ends_and_not_at_every_step(limit):
    calls = []
    decoder = decoder_of(PlainDrafter(), synchronize=lambda: calls.append(1), time_phases=False)
    decoder.generate([PROMPTS[1]], StopConditions(limit), [0])
    assert len(calls) == 3, "before the prefill, after it, after the last token"
    calls.clear()
    decoder = decoder_of(PlainDrafter(), synchronize=lambda: calls.append(1), time_phases=True)
    batch = decoder.generate([PROMPTS[1]], StopConditions(limit), [0])
    assert len(calls) == 3 + (2 + 5 * (limit - 1) if limit > 1 else 0)
    assert batch.decode_ns >= sum(vars(batch.phases).values())


class Slow(Scripted):
    """Takes its time in one of its hooks."""

    def __init__(self, hook):
        super().__init__([plain_answers()[1]], 3)
        self.hook = hook

    def start(self, context):
        time.sleep(0.03 * (self.hook == "start"))

    def propose(self, context):
        time.sleep(0.03 * (self.hook == "propose"))
        return super().propose(context)

    def observe(self, context, step):
        time.sleep(0.03 * (self.hook == "observe"))


@pytest.mark.fault("L07", "K08")
@pytest.mark.parametrize("hook", ["start", "propose", "observe"])
def test_all_work_of_a_method_is_inside_the_clock(hook):
    batch = decoder_of(Slow(hook)).generate([PROMPTS[1]], StopConditions(8), [0])
    phase = batch.phases.observe if hook == "observe" else batch.phases.draft
    assert phase >= 28_000_000
    assert batch.decode_ns >= phase
    assert batch.prefill_ns < 28_000_000 or hook == "", "the window of the prefill is its own"


@pytest.mark.fault("K06", "K07")
def test_nothing_of_a_prompt_is_kept_for_the_next_prefill(monkeypatch):
    """The same prompt again runs the same passes of the same widths: there is no prefix cache."""
    widths = []
    run = Transformer.run

    def watched(self, hidden, *args, **options):
        widths.append(tuple(hidden.shape[:2]))
        return run(self, hidden, *args, **options)

    monkeypatch.setattr(Transformer, "run", watched)
    decoder = decoder_of(Scripted([plain_answers()[1]], 3))
    seen = []
    for _ in range(3):
        widths.clear()
        decoder.generate([PROMPTS[1]], StopConditions(12), [0])
        seen.append(list(widths))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == (1, len(PROMPTS[1]))


@pytest.mark.fault("K16", "K09")
def test_plain_decoding_is_the_same_loop_with_an_empty_draft():
    """One pass of width 1 a token: nothing that a method's arm has is missing from the baseline's, or the reverse."""
    batch = decoder_of(PlainDrafter()).generate([PROMPTS[1]], StopConditions(12), [0])
    row = batch.generations[0]
    assert row.emitted == [1] * 11
    assert not any(row.drafted + row.probes + row.accepted)
    assert batch.draft_passes == 0

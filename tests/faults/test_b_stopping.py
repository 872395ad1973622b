"""Section B: EOS, stop strings, length."""

import dataclasses

import pytest

from specatlas.engine.draft import Draft
from specatlas.engine.drafter import Context, Drafter, PlainDrafter
from tests.faults.world import PROMPTS, SAMPLED, VOCABULARY, decode, plain_answers, target
from tests.support.drafters import Scripted


@pytest.mark.fault("B02", "B03")
def test_drafters_are_not_told_where_answers_end():
    """Neither EOS ids, nor stop strings, nor the limit: only how deep a draft can still be emitted."""
    names = {one.name for one in dataclasses.fields(Context)}
    assert not {name for name in names if any(word in name for word in ("eos", "stop", "limit", "max"))}
    assert "budgets" in names


@pytest.mark.fault("B03", "B15")
@pytest.mark.parametrize("place", range(3))
def test_a_drafted_eos_is_an_ordinary_proposal(place):
    """A drafter that proposes EOS where the target does not say it ends nothing, and is rejected like any token."""
    truth = plain_answers()[1]
    eos = next(token for token in range(VOCABULARY) if token not in truth)
    wrong = lambda token, index: eos if index % 3 == place else token  # noqa: E731
    row = decode(Scripted([truth], 4, wrong), [PROMPTS[1]], eos_ids=frozenset({eos}))[0]
    assert row.ids == truth[:24]
    assert row.finish == "length"
    assert any(accepted < drafted for accepted, drafted in zip(row.accepted, row.drafted, strict=True))


class Uneven(Drafter):
    """Proposes fewer tokens than it could, another number every step and row."""

    def propose(self, context):
        self.proposed = [(place + row) % 4 for row, place in enumerate(context.answer_lengths)]
        return Draft.chains([[1] * count for count in self.proposed], context.device)

    def observe(self, context, step):
        assert step.draft.counts == [
            min(count, budget) for count, budget in zip(self.proposed, self.before, strict=True)
        ]

    def budgets(self, context):
        self.before = list(context.budgets)
        return context.budgets


@pytest.mark.fault("B15", "J01", "J07")
def test_what_was_proposed_is_counted_not_what_could_have_been():
    rows = decode(Uneven())
    for row, ids in zip(rows, plain_answers(), strict=True):
        assert row.ids == ids[:24]
        assert len(set(row.drafted)) > 2
        assert row.drafted == row.depth
        assert all(accepted <= drafted for accepted, drafted in zip(row.accepted, row.drafted, strict=True))


@pytest.mark.fault("B11", "B10")
@pytest.mark.parametrize("length", [0, 3])
def test_a_stop_cuts_a_sampled_answer_and_changes_nothing_before_the_cut(length):
    """What is evaluated beyond the cut uses up no random numbers of what is emitted."""
    text = lambda ids: "".join(chr(97 + token) for token in ids)  # noqa: E731
    options = {"rule": "speculative_sampling", "settings": SAMPLED}
    whole = decode(Scripted(plain_answers(), length), **options)
    for end in range(3, 20, 4):
        for row, known in enumerate(whole):
            word = text(known.ids[end - 2 : end])
            cut = text(known.ids).index(word) + 2
            drafter = Scripted([plain_answers()[row]], length)
            answer = decode(drafter, [PROMPTS[row]], seeds=[row], stop_strings=(word,), decode=text, **options)[0]
            assert answer.ids == known.ids[:cut]
            assert answer.finish == "stop_string"
            assert sum(answer.emitted) == cut - 1


@pytest.mark.fault("B13", "C20")
@pytest.mark.parametrize("length", [0, 1, 4])
def test_the_next_turn_after_a_cut_answer_is_that_of_a_fresh_start(length):
    """An EOS in the middle of an accepted block must leave neither counts nor cache beyond it."""
    from specatlas.engine.decoding import Decoder
    from specatlas.engine.sampling import SamplingSettings
    from specatlas.engine.stopping import StopConditions
    from specatlas.engine.verification import make_rule

    truth = plain_answers()[1]
    eos = truth[6]
    end = truth.index(eos) + 1
    decoder = Decoder(target(), Scripted([truth], length), make_rule("greedy"), SamplingSettings(), check=True)
    first = decoder.generate([PROMPTS[1]], StopConditions(24, frozenset({eos})), [0]).generations[0]
    assert first.ids == truth[:end]
    assert sum(first.emitted) == end - 1
    assert sum(first.accepted) <= end - 1
    second = [*PROMPTS[1], *first.ids, 3, 1, 4]
    expected = decode(PlainDrafter(), [second])[0].ids
    decoder.drafter.continuations = [expected]
    assert decoder.generate([second], StopConditions(24), [0]).generations[0].ids == expected

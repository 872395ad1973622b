"""Checks of where answers end."""

from collections.abc import Sequence

from specatlas.engine.stopping import StopConditions
from specatlas.measure.conformance.models import ANSWER, small, varied
from specatlas.measure.conformance.registry import check, expect_equal
from specatlas.measure.conformance.subject import Subject


@check("eos")
def eos(subject: Subject) -> str:
    """EOS declared at each place of a known continuation, alone and among others, ends the answer there."""
    case = varied()
    prompt, known = case.prompts[2], subject.runner(case).decode(case.prompts[2:3])[0].ids
    runner = subject.runner(case)
    for place, token in enumerate(known):
        several = frozenset({token, 10_000, known[min(place + 1, ANSWER - 1)]})
        for ids in (frozenset({token}), several) if place % 4 == 0 else (frozenset({token}),):
            end = min(known.index(one) + 1 for one in ids if one in known)
            answer = runner.decode([prompt], stop=StopConditions(ANSWER, ids))[0]
            expect_equal(answer.ids, known[:end], f"EOS at place {end - 1}")
            expect_equal(answer.finish, "eos", f"finish with EOS at place {end - 1}")
            expect_equal(sum(answer.emitted), end - 1, f"tokens counted with EOS at place {end - 1}")
    never = frozenset(range(case.vocabulary)) - set(known)
    expect_equal(runner.decode([prompt], stop=StopConditions(ANSWER, never))[0].ids, known, "EOS that never occurs")
    return f"{len(known)} places, one and several ids, and none"


@check("stop-string")
def stop_string(subject: Subject) -> str:
    """A stop string of three tokens ends the answer with the token that completes it, wherever blocks end."""
    case = varied()
    prompt = case.prompts[2]
    runner = subject.runner(case)
    known = runner.decode([prompt])[0].ids
    for start in range(0, ANSWER - 3, 2):
        text = _letters(known[start : start + 3])
        end = _letters(known).index(text) + 3
        answer = runner.decode([prompt], stop=StopConditions(ANSWER, frozenset(), (text,), _letters))[0]
        expect_equal(answer.ids, known[:end], f"stop string at place {end - 3}")
        expect_equal(answer.finish, "stop_string", f"finish at place {end - 3}")
    return f"{len(range(0, ANSWER - 3, 2))} places"


@check("uneven-ends")
def uneven_ends(subject: Subject) -> str:
    """Rows of a batch that end early do not disturb those that go on."""
    case = small()
    runner = subject.runner(case)
    alone = [runner.decode([prompt])[0].ids for prompt in case.prompts]
    for token in range(case.vocabulary):
        answers = runner.decode(case.prompts, stop=StopConditions(ANSWER, frozenset({token})))
        for known, answer in zip(alone, answers, strict=True):
            expect_equal(answer.ids, known[: _end(known, token)], f"EOS {token}, beside other rows")
    return f"each of {case.vocabulary} tokens as EOS"


def _end(ids: Sequence[int], token: int) -> int:
    return ids.index(token) + 1 if token in ids else len(ids)


def _letters(ids: Sequence[int]) -> str:
    """One letter a token."""
    return "".join(chr(0x4E00 + token) for token in ids)

"""Checks of what a method keeps: between prompts, rows, runs and instances."""

from collections.abc import Sequence

from specatlas.engine.decoding import Generation
from specatlas.engine.stopping import StopConditions
from specatlas.errors import CatalogError, Refusal, UnsupportedBatch
from specatlas.measure.conformance.models import ANSWER, Case, small
from specatlas.measure.conformance.registry import CheckFailed, check, expect_equal
from specatlas.measure.conformance.subject import GREEDY, SAMPLED, Runner, Subject
from specatlas.records.schema import StepCounts

DEPTHS = ("draft_length", "tree_depth", "heads")
"""Hyper-parameters that bound how far a method drafts."""


@check("batch-rows")
def batch_rows(subject: Subject) -> str:
    """A row's drafts and answer are the same alone and in a ragged batch of four."""
    case = small()
    if not subject.method.card.batch:
        try:
            subject.runner(case).decode(case.prompts, together=True)
        except UnsupportedBatch:
            return "one prompt at a time; several are refused"
        raise CheckFailed("the card says `batch: false`, but several prompts are not refused")
    for settings in [GREEDY, *([SAMPLED] if subject.samples else [])]:
        runner = subject.runner(case, settings)
        alone = runner.decode(case.prompts, together=False)
        _expect_same(runner.decode(case.prompts, together=True), alone, f"{settings}: in a batch")
        reordered = runner.decode(case.prompts[::-1], seeds=list(range(len(case.prompts)))[::-1])
        _expect_same(reordered[::-1], alone, f"{settings}: in a batch of another order")
    return f"{len(case.prompts)} rows, lengths {', '.join(str(len(prompt)) for prompt in case.prompts)}"


@check("no-carry-over")
def no_carry_over(subject: Subject) -> str:
    """Drafts depend neither on earlier prompts nor on their order, unless the card declares it."""
    case = small()
    fresh = _fresh(subject, case)
    if subject.method.card.carry_over:
        runner = subject.runner(case)
        answers = [runner.decode([prompt])[0] for prompt in case.prompts * 2]
        expected = [answer.ids for answer in fresh] * 2
        expect_equal([answer.ids for answer in answers] if subject.exact else expected, expected, "with carried state")
        return "carries over, as the card says; the tokens do not change"
    used = subject.runner(case)
    for order in ((0, 1, 2, 3), (0, 1, 2, 3), (3, 1, 0, 2), (2, 2, 0, 3)):
        answers = [used.decode([case.prompts[place]])[0] for place in order]
        _expect_same(answers, [fresh[place] for place in order], "prompts " + ", ".join(map(str, order)))
    return "same drafts again, and in three orders"


@check("abort-and-reuse")
def abort_and_reuse(subject: Subject) -> str:
    """A generation that was broken off in the middle leaves nothing behind."""
    case = small()
    fresh = _fresh(subject, case)
    if subject.method.card.carry_over:
        return "carries over by its card"
    runner = subject.runner(case)
    for steps in (1, 3):
        for prompt, expected in zip(case.prompts, fresh, strict=True):
            _abort(runner, prompt, steps)
            _expect_same(runner.decode([prompt]), [expected], f"after an abort at step {steps}")
    return "aborted at two places, then decoded again"


def _fresh(subject: Subject, case: Case) -> list[Generation]:
    """Each prompt with an instance of its own."""
    return [subject.runner(case).decode([prompt])[0] for prompt in case.prompts]


def _abort(runner: Runner, prompt: Sequence[int], steps: int) -> None:
    """Breaks off as a consumer does that has seen enough: from within the harness, after some steps."""
    left = steps

    def decode(_: Sequence[int]) -> str:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return ""

    try:
        runner.decode([prompt], stop=StopConditions(ANSWER, frozenset(), ("x",), decode))
    except KeyboardInterrupt:
        return


@check("side-by-side")
def side_by_side(subject: Subject) -> str:
    """Two instances, one decoding another prompt in the middle of the other's step, do not meet."""
    case = small()
    first, second = subject.runner(case), subject.runner(case, overrides=_other(subject))
    limit = ANSWER // 2
    alone = [(first.decode([prompt], limit)[0], second.decode([prompt], 4)[0]) for prompt in case.prompts]
    inner: list[Generation] = []
    for place, prompt in enumerate(case.prompts):
        other = case.prompts[place - 1]
        first.watched.before_proposing = lambda other=other: inner.extend(second.decode([other], 4))  # type: ignore[misc]
        inner.clear()
        answers = first.decode([prompt], limit)
        if subject.method.card.carry_over:
            continue
        _expect_same(answers, [alone[place][0]], "with another instance in between")
        _expect_same(inner[-1:], [alone[place - 1][1]], "within another instance's step")
    return f"{len(case.prompts)} prompts, interleaved"


def _other(subject: Subject) -> dict[str, int | float | bool | str]:
    """A second setting of the hyper-parameters that the method accepts."""
    for overrides in subject.variants():
        try:
            subject.build(small(), GREEDY, overrides)
        except (CatalogError, Refusal):
            continue
        if overrides:
            return overrides
    return {}


@check("first-token-ignores-length")
def first_token_ignores_length(subject: Subject) -> str:
    """After the same text the first draft token is the same, however far the method drafts (fault C01)."""
    name = next((name for name in DEPTHS if name in subject.method.card.hyperparameters), None)
    if name is None or subject.method.card.carry_over or not subject.exact:
        return "no hyper-parameter bounds the draft"
    case = small()
    low, high = subject.range_of(name)[0], subject.range_of(name)[-1]
    shared = 0
    for prompt in case.prompts:
        short = _first_tokens(subject, case, prompt, {name: max(1, int(low))})
        long = _first_tokens(subject, case, prompt, {name: high})
        for place in short.keys() & long.keys():
            expect_equal(long[place], short[place], f"first draft token at place {place}, {name} {high} against 1")
        shared += len(short.keys() & long.keys())
    return f"{shared} places, {name} 1 and {high}"


def _first_tokens(subject: Subject, case: Case, prompt: Sequence[int], overrides: dict[str, object]) -> dict[int, int]:
    """First draft token by the answer's length before the step."""
    runner = subject.runner(case, overrides=overrides)  # type: ignore[arg-type]
    runner.decode([prompt])
    drafts = runner.watched.proposed
    return {lengths[0]: int(draft.tokens[0, 0]) for lengths, draft in drafts if draft.counts[0]}


@check("identities")
def identities(subject: Subject) -> str:
    """Counts add up: tokens emitted, accepted and drafted, step by step; passes of a network are counted."""
    case = small()
    steps = emitted = 0
    needs = subject.method.card.needs
    for settings in [GREEDY, *([SAMPLED] if subject.samples else [])]:
        runner = subject.runner(case, settings)
        for prompt in case.prompts:
            answer = runner.decode([prompt])[0]
            StepCounts(
                emitted=tuple(answer.emitted),
                accepted=tuple(answer.accepted),
                drafted=tuple(answer.drafted),
                depth=tuple(answer.depth),
                probes=tuple(answer.probes),
            )
            expect_equal(sum(answer.emitted), len(answer.ids) - 1, "tokens emitted by steps")
            steps, emitted = steps + len(answer.emitted), emitted + sum(answer.emitted)
            if sum(answer.drafted) and (needs.draft_model or needs.layer_access) and not runner.watched.inner.passes:
                raise CheckFailed("a network drafted, but `passes` is 0; add one for every pass")
    return f"acceptance length {emitted / steps:.2f} over {steps} steps, with random weights"


def _expect_same(got: Sequence[Generation], expected: Sequence[Generation], what: str) -> None:
    """Ids, and what was drafted and accepted in every step."""
    for one, other in zip(got, expected, strict=True):
        expect_equal(one.ids, other.ids, f"{what}: ids")
        expect_equal(one, other, f"{what}: steps")

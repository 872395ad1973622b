"""Checks at temperature 0, in fp32: the tokens are plain decoding's own, whatever is drafted."""

from collections.abc import Sequence

from specatlas.engine.decoding import Generation
from specatlas.errors import CatalogError, Refusal
from specatlas.measure.conformance.models import (
    ANSWER,
    Case,
    architectures,
    long_prompt,
    short_context,
    small,
    varied,
)
from specatlas.measure.conformance.registry import CheckFailed, check, expect_equal
from specatlas.measure.conformance.subject import Subject, Values

NOT_CLAIMED = "not claimed: the card says lossy at temperature 0"


@check("exact-hyperparameters")
def exact_hyperparameters(subject: Subject) -> str:
    """At the defaults and at every extreme of every hyper-parameter."""
    if not subject.exact:
        return NOT_CLAIMED
    run = 0
    for overrides in [*subject.variants(), *subject.corners()]:
        for case in (small(), varied()):
            try:
                got = subject.runner(case, overrides=overrides).decode(case.prompts)
            except (CatalogError, Refusal):
                continue
            expect_plain(got, case, f"{case.name}, {_named(overrides)}")
            run += 1
    return f"{run} runs of {len(small().prompts)} prompts"


@check("exact-prompts")
def exact_prompts(subject: Subject) -> str:
    """One prompt at a time: one token, short, repetitive, mixed, and longer than a chunk of the prefill."""
    if not subject.exact:
        return NOT_CLAIMED
    for case in (small(), long_prompt()):
        got = subject.runner(case).decode(case.prompts, together=False)
        expect_plain(got, case, case.name)
    return f"prompts of {', '.join(str(len(prompt)) for prompt in (*small().prompts, *long_prompt().prompts))} tokens"


@check("exact-limits")
def exact_limits(subject: Subject) -> str:
    """At limits around 1 and around the draft's own depth K, the answer has exactly so many tokens."""
    case = small()
    runner = subject.runner(case)
    first = runner.decode(case.prompts)
    depth = max((max(answer.depth, default=0) for answer in first), default=0)
    limits = sorted({1, 2, 3, depth, depth + 1, depth + 2} & set(range(1, ANSWER)))
    for limit in limits:
        for answer, plain in zip(runner.decode(case.prompts, limit), case.plain, strict=True):
            expect_equal(len(answer.ids), limit, f"tokens at limit {limit}")
            expect_equal(answer.finish, "length", f"finish at limit {limit}")
            if subject.exact:
                expect_equal(answer.ids, plain.ids[:limit], f"limit {limit}")
    return f"limits {', '.join(map(str, limits))}"


@check("exact-architectures")
def exact_architectures(subject: Subject) -> str:
    """On targets of other families and sizes."""
    if not subject.exact:
        return NOT_CLAIMED
    for case in architectures():
        expect_plain(subject.runner(case).decode(case.prompts), case, case.name)
    return "; ".join(case.name for case in architectures())


@check("exact-context-end")
def exact_context_end(subject: Subject) -> str:
    """When the answer ends where the context does."""
    if not subject.exact:
        return NOT_CLAIMED
    case = short_context()
    for overrides in ({}, subject.corners()[-1]):
        try:
            runner = subject.runner(case, overrides=overrides)
        except (CatalogError, Refusal):
            continue
        for together in (False, True) if runner.batch else (False,):
            expect_plain(runner.decode(case.prompts, together=together), case, f"{case.name}, {_named(overrides)}")
    return f"context of {case.target.architecture.context} tokens"


@check("speculates")
def speculates(subject: Subject) -> str:
    """Something is drafted, and what a method of no drafts emits is one token a step."""
    case = small()
    answers = subject.runner(case).decode(case.prompts)
    drafted, accepted = (sum(sum(getattr(answer, name)) for answer in answers) for name in ("drafted", "accepted"))
    if subject.method.card.draft_shape == "none":
        expect_equal(drafted, 0, "drafted nodes")
        return "drafts nothing, as the card says"
    if not drafted:
        raise CheckFailed("nothing was drafted on any prompt: the method is silently plain decoding")
    return f"{drafted} nodes drafted, {accepted} accepted, with random weights"


def expect_plain(got: Sequence[Generation], case: Case, what: str) -> None:
    """Fails where an answer differs from plain decoding.

    Raises:
        CheckFailed: Names the prompt and the first place.
    """
    for prompt, answer, plain in zip(case.prompts, got, case.plain, strict=True):
        if answer.ids != plain.ids:
            pairs = enumerate(zip(answer.ids, plain.ids, strict=False))
            place = next((index for index, (one, other) in pairs if one != other), min(len(answer.ids), len(plain.ids)))
            raise CheckFailed(f"{what}: prompt of {len(prompt)} tokens differs from plain decoding at token {place}")


def _named(overrides: Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in overrides.items()) or "defaults"

"""Checks at temperatures above 0."""

from specatlas.catalog.card import Losslessness
from specatlas.engine.sampling import SamplingSettings
from specatlas.measure.conformance.distribution import Comparison, compare, drafting_corners, together
from specatlas.measure.conformance.models import small, varied
from specatlas.measure.conformance.registry import CheckFailed, check, expect_equal
from specatlas.measure.conformance.subject import SAMPLED, Subject

TEMPERATURES = (0.5, 1.0, 1.5)
FILTERS: tuple[dict[str, int | float], ...] = ({}, {"top_k": 3}, {"top_p": 0.8})
ANSWERS, ANSWERS_ALONE = 1200, 250
"""Answers a setting; fewer where a method decodes one at a time."""

SMALLEST_P = 1e-4
"""For all settings together (Bonferroni): what a right method fails once in ten thousand changes of its randomness."""

NOT_OFFERED = "not offered: temperature 0 only"


@check("seeds")
def seeds(subject: Subject) -> str:
    """The same seed gives the same answer and drafts again; other seeds give other answers."""
    case = varied()
    settings = SAMPLED if subject.samples else SamplingSettings()
    first = subject.runner(case, settings).decode(case.prompts, seeds=[1, 2, 3, 4])
    again = subject.runner(case, settings).decode(case.prompts, seeds=[1, 2, 3, 4])
    expect_equal(again, first, "the same seeds in a new instance")
    if not subject.samples:
        return "greedy answers repeat"
    other = subject.runner(case, settings).decode(case.prompts, seeds=[5, 6, 7, 8])
    if any(one.ids == two.ids for one, two in zip(first, other, strict=True)):
        raise CheckFailed("another seed gave the same answer")
    mixed = subject.runner(case, settings).decode(case.prompts, seeds=[1, 6, 3, 8])
    expect_equal([answer.ids for answer in mixed[::2]], [answer.ids for answer in first[::2]], "beside other seeds")
    return "same seeds repeat, others differ"


@check("cold-is-greedy")
def cold_is_greedy(subject: Subject) -> str:
    """At temperature 1e-6 the answers are the greedy ones, and every advertised filter runs at temperature 0."""
    if not subject.samples:
        return NOT_OFFERED
    case = small()
    greedy = [answer.ids for answer in subject.runner(case).decode(case.prompts)]
    for settings in (SamplingSettings(1e-6), SamplingSettings(1e-6, 3, 0.9), SamplingSettings(0.0, 3, 0.9)):
        got = [answer.ids for answer in subject.runner(case, settings).decode(case.prompts)]
        expect_equal(got, greedy, f"{settings}")
    return "temperature 1e-6, with and without filters"


@check("distribution")
def distribution(subject: Subject) -> str:
    """Answers are distributed as the target's own, at three temperatures with and without top-k and top-p."""
    if not subject.samples:
        return NOT_OFFERED
    if subject.method.card.lossless.sampling is Losslessness.LOSSY:
        return "not claimed: the card says lossy above temperature 0"
    corners = drafting_corners(subject, SAMPLED)
    answers = ANSWERS if subject.method.card.batch else ANSWERS_ALONE
    found: dict[str, Comparison] = {}
    for warm, temperature in enumerate(TEMPERATURES):
        for kind, filters in enumerate(FILTERS):
            # A Latin square: every corner meets every temperature and every filter.
            corner = corners[(warm + kind) % len(corners)]
            settings = SamplingSettings(temperature, **filters)  # type: ignore[arg-type]
            found[f"{settings}, {corner}"] = compare(subject, settings, corner, answers, 1 + 3 * warm + kind)
    # A bias of the method shows a little everywhere, so all settings are tested together too.
    found["all settings together"] = whole = together(list(found.values()))
    worst = min(found, key=lambda name: found[name].p_value)
    p = min(1.0, found[worst].p_value * len(found))
    if p < SMALLEST_P:
        raise CheckFailed(f"not the target's distribution (p = {p:.1e}), worst at {worst}")
    return f"p = {p:.2g} over {len(found)} tests; {whole.drafted} nodes drafted, {whole.accepted} accepted"

"""Does a method at temperatures above 0 sample what the target samples? Exact enumeration against a chi-square test.

On a vocabulary of a few tokens the probability of every short answer can be computed by plain passes, so the answers of
many seeds are a multinomial sample with known cells.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import torch
from scipy.stats import chi2

from specatlas.catalog.discovery import Catalog, Method
from specatlas.engine.sampling import SamplingSettings, probabilities
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.errors import CatalogError
from specatlas.measure.conformance.models import BASE, Case, decode_plainly, random_transformer
from specatlas.measure.conformance.subject import Subject, Values

VOCABULARY = 6
LENGTH = 4
"""Tokens of an answer: the prefill's, and three more, so that a draft of two can stand, fall, or fall half."""

FEWEST = 5.0
"""Expected answers a cell; smaller cells are merged with their neighbours, as the chi-square approximation needs."""

ROWS = 500
"""Answers decoded at once."""

RUN_ANSWERS = 5000
"""Answers for the test at the settings of a run."""

Answer = tuple[int, ...]


@dataclass(frozen=True)
class Comparison:
    """Counts of the method's answers against the target's probabilities.

    Attributes:
        statistic: Pearson's chi-square; infinite where an answer of probability 0 occurred.
        freedom: Degrees of freedom.
        drafted: Draft nodes verified, all answers together.
        accepted: Those that stood.
    """

    statistic: float
    freedom: int
    drafted: int
    accepted: int

    @property
    def p_value(self) -> float:
        """Probability of a deviation at least this large if the method is right."""
        return float(chi2.sf(self.statistic, self.freedom))


@cache
def sampling_case() -> Case:
    """A target of few tokens and one prompt, which repeats itself so that look-up methods find something."""
    architecture = replace(
        BASE, vocabulary=VOCABULARY, hidden=16, intermediate=24, heads=2, kv_heads=1, head_dim=8, context=64
    )
    target = random_transformer(architecture, 9, 0.45)
    prompt = ((0, 1, 2, 3, 4, 5, 0, 2, 4, 1, 5, 3, 3, 0, 1, 2),)
    return Case(f"{VOCABULARY} tokens", target, prompt, decode_plainly(target, prompt))


@cache
def answer_probabilities(settings: SamplingSettings) -> dict[Answer, float]:
    """Probability of each answer of `LENGTH` tokens under plain decoding; they sum to 1."""
    case = sampling_case()
    known: dict[Answer, float] = {(): 1.0}
    for length in range(LENGTH):
        prefixes = list(product(range(VOCABULARY), repeat=length))
        rows = _next_token(case.target, [[*case.prompts[0], *prefix] for prefix in prefixes], settings)
        known = {
            (*prefix, token): known[prefix] * p
            for prefix, row in zip(prefixes, rows, strict=True)
            for token, p in enumerate(row)
        }
    return known


@torch.inference_mode()
def _next_token(target: Transformer, texts: Sequence[Sequence[int]], settings: SamplingSettings) -> list[list[float]]:
    tokens = torch.tensor(texts)
    hidden = target(tokens, target.new_cache(len(texts), tokens.shape[1])).hidden[:, -1]
    p: list[list[float]] = probabilities(target.logits(hidden), settings).double().tolist()
    return p


def chi_square(expected: dict[Answer, float], observed: Counter[Answer]) -> tuple[float, int]:
    """Pearson's statistic of the counts `observed` under the probabilities `expected`, and its degrees of freedom."""
    total = observed.total()
    cells = list(_merged([(mass * total, observed[answer]) for answer, mass in expected.items() if mass > 0]))
    freedom = max(len(cells) - 1, 1)
    if any(expected[answer] == 0 for answer in observed):
        return float("inf"), freedom
    return sum((seen - wanted) ** 2 / wanted for wanted, seen in cells), freedom


def _merged(cells: list[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """Merges neighbours, which share their first tokens, until each cell expects enough; the rest joins the last."""
    wanted, seen = 0.0, 0
    held: tuple[float, int] | None = None
    for mass, count in cells:
        wanted, seen = wanted + mass, seen + count
        if wanted >= FEWEST:
            if held is not None:
                yield held
            held, wanted, seen = (wanted, seen), 0.0, 0
    yield (wanted, seen) if held is None else (held[0] + wanted, held[1] + seen)


def compare(subject: Subject, settings: SamplingSettings, overrides: Values, answers: int, seed: int) -> Comparison:
    """Samples `answers` answers of the method and compares them with the target's own distribution."""
    case = sampling_case()
    runner = subject.runner(case, settings, overrides)
    rows = ROWS if runner.batch else 1
    observed: Counter[Answer] = Counter()
    drafted = accepted = 0
    for start in range(0, answers, rows):
        seeds = [(seed << 24) + number for number in range(start, min(start + rows, answers))]
        batch = runner.decode(case.prompts * len(seeds), stop=StopConditions(LENGTH), seeds=seeds)
        observed.update(tuple(answer.ids) for answer in batch)
        drafted += sum(sum(answer.drafted) for answer in batch)
        accepted += sum(sum(answer.accepted) for answer in batch)
        runner.watched.proposed.clear()
    return Comparison(*chi_square(answer_probabilities(settings), observed), drafted, accepted)


def together(comparisons: Sequence[Comparison]) -> Comparison:
    """Several independent comparisons as one."""
    return Comparison(
        sum(one.statistic for one in comparisons),
        sum(one.freedom for one in comparisons),
        sum(one.drafted for one in comparisons),
        sum(one.accepted for one in comparisons),
    )


def drafting_corners(subject: Subject, settings: SamplingSettings) -> list[dict[str, int | float | bool | str]]:
    """The corners of the hyper-parameters at which something is drafted within so short an answer.

    Just the defaults where there is none.
    """
    found = []
    for corner in subject.corners():
        try:
            if corner not in found and compare(subject, settings, corner, 40, 0).drafted:
                found.append(corner)
        except CatalogError:
            continue
    return found or [{}]


def distribution_p_value(method: Method, catalog: Catalog, settings: SamplingSettings, seed: int) -> float:
    """The test at the settings of a run, pooled over corners of the hyper-parameters.

    Args:
        method: The method.
        catalog: Where it comes from.
        settings: Of the run.
        seed: Of the sampled answers.

    Returns:
        The smallest p-value of any corner, times their number.

    Raises:
        Refusal: The method does not sample, or not so.
    """
    subject = Subject(method, catalog)
    corners = drafting_corners(subject, settings)
    found = [compare(subject, settings, corner, RUN_ANSWERS, seed).p_value for corner in corners]
    return min(1.0, min(found) * len(found))

"""Quality of the output against plain decoding's: what lossy methods are judged by."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import torch

from specatlas.engine.transformer import Transformer
from specatlas.measure.divergence import first_difference, paired
from specatlas.measure.questions import Question, spread
from specatlas.records.schema import Quality, Sample

GRAM = 4
FEW = 4
"""Answers whose likelihood is computed for a lossless method: enough to see that nothing is odd, few enough to cost
nothing that matters."""


def quality(target: Transformer, samples: Iterable[Sample], questions: Iterable[Question], *, lossy: bool) -> Quality:
    """Compares the first cycle's answers of both arms.

    Args:
        target: The target in the run's precision.
        samples: Of both arms.
        questions: The unit's questions.
        lossy: Whether the likelihood of all answers is computed, or of a few.
    """
    pairs = paired(sample for sample in samples if sample.cycle == 0)
    tokens = {(question.prompt_id, question.turn): question.tokens for question in questions}
    scored = pairs if lossy else spread(pairs, FEW)
    likelihoods: list[list[float]] = [[], []]
    for pair in scored:
        same = pair[0].ids == pair[1].ids
        mine = log_probabilities(target, tokens[pair[0].prompt_id, pair[0].turn], pair[0].ids)
        theirs = mine if same else log_probabilities(target, tokens[pair[1].prompt_id, pair[1].turn], pair[1].ids)
        likelihoods[0] += mine
        likelihoods[1] += theirs
    return Quality(
        agreement=agreement((method.ids, plain.ids) for method, plain in pairs),
        log_likelihood=fmean(likelihoods[0]) if likelihoods[0] else None,
        baseline_log_likelihood=fmean(likelihoods[1]) if likelihoods[1] else None,
        repetition=repetition(method.ids for method, _ in pairs),
        baseline_repetition=repetition(plain.ids for _, plain in pairs),
    )


def agreement(answers: Iterable[tuple[Sequence[int], Sequence[int]]]) -> float:
    """Share of positions before each pair's first difference; the longer answer of a pair counts."""
    agreed = total = 0
    for method, plain in answers:
        longest = max(len(method), len(plain))
        place = first_difference(plain, method)
        agreed += longest if place is None else place
        total += longest
    return agreed / total if total else 1.0


def repetition(outputs: Iterable[Sequence[int]]) -> float:
    """Share of the outputs' 4-grams that occurred earlier in the same output; 0 without a 4-gram."""
    total = distinct = 0
    for ids in outputs:
        grams = [tuple(ids[start : start + GRAM]) for start in range(len(ids) - GRAM + 1)]
        total += len(grams)
        distinct += len(set(grams))
    return (total - distinct) / total if total else 0.0


@torch.inference_mode()
def log_probabilities(target: Transformer, prompt: Sequence[int], ids: Sequence[int]) -> list[float]:
    """Natural log-probability of each id of an answer under the target, at temperature 1."""
    cache = target.new_cache(1, len(prompt) + len(ids))
    row = torch.tensor([[*prompt, *ids]], device=target.device)
    hidden = target(row[:, :-1], cache).hidden[:, len(prompt) - 1 :]
    scores = target.logits(hidden)[0].float().log_softmax(-1)
    picked = scores.gather(1, torch.tensor(list(ids), device=target.device).unsqueeze(1))
    return [float(value) for value in picked[:, 0].tolist()]

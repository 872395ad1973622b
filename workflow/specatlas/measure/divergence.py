"""Where two answers part, and whether rounding explains it."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from specatlas.engine.decoding import PREFILL_CHUNK
from specatlas.engine.transformer import Transformer
from specatlas.measure.questions import Question
from specatlas.measure.rounding import TOLERANCE_ULP, ulp
from specatlas.records.schema import Divergence, Sample

MISSING = -1
"""Stands for the token that an answer lacks where it ends before the other one."""

Judge = Callable[[Question, Divergence, Sequence[int]], Divergence]


def first_difference(expected: Sequence[int], got: Sequence[int]) -> int | None:
    """Index of the first id that differs; the shorter answer's length if it is the other's beginning."""
    for place, (theirs, ours) in enumerate(zip(expected, got, strict=False)):
        if theirs != ours:
            return place
    return None if len(expected) == len(got) else min(len(expected), len(got))


def divergence(question: Question, cycle: int, expected: Sequence[int], got: Sequence[int]) -> Divergence | None:
    """The first difference between two answers to one question, not judged; null where there is none."""
    place = first_difference(expected, got)
    if place is None:
        return None
    return Divergence(
        prompt_id=question.prompt_id,
        turn=question.turn,
        cycle=cycle,
        position=place,
        expected=expected[place] if place < len(expected) else MISSING,
        got=got[place] if place < len(got) else MISSING,
        gap_ulp=None,
        near_tie=False,
    )


def paired(samples: Iterable[Sample]) -> list[tuple[Sample, Sample]]:
    """(method, baseline) of every (prompt, turn, cycle), in the order of the method's samples."""
    arms: dict[str, dict[tuple[str, int, int], Sample]] = {"method": {}, "baseline": {}}
    for sample in samples:
        arms[sample.arm][sample.prompt_id, sample.turn, sample.cycle] = sample
    return [(sample, arms["baseline"][key]) for key, sample in arms["method"].items()]


def run_divergences(
    samples: Iterable[Sample], questions: Iterable[Question], judge: Judge | None
) -> tuple[Divergence, ...]:
    """Every generation of the method that differs from plain decoding's of the same cycle.

    Args:
        samples: Of both arms.
        questions: The unit's questions.
        judge: Says whether rounding explains a divergence; null to leave them unjudged.
    """
    by_key = {(question.prompt_id, question.turn): question for question in questions}
    found, judged = [], dict[tuple[Question, int, int, int], Divergence]()
    for method, baseline in paired(samples):
        question = by_key[method.prompt_id, method.turn]
        one = divergence(question, method.cycle, baseline.ids, method.ids)
        if one is not None and judge is not None:
            # Cycles repeat a divergence: one pass over the target judges all of them.
            key = (question, one.position, one.expected, one.got)
            known = judged.get(key) or judge(question, one, baseline.ids)
            judged[key] = known
            one = known.model_copy(update={"cycle": method.cycle})
        found += [one] if one is not None else []
    return tuple(found)


def teacher_forced_judge(target: Transformer) -> Judge:
    """Judges by the target's own logits after prompt and common answer, in the target's precision."""

    def judge(question: Question, one: Divergence, expected: Sequence[int]) -> Divergence:
        if MISSING in (one.expected, one.got):
            return one
        logits = last_logits(target, [*question.tokens, *expected[: one.position]])
        return judged_by_logits(one, logits, target.dtype)

    return judge


def judged_by_logits(one: Divergence, logits: Tensor, dtype: torch.dtype) -> Divergence:
    """The divergence with its gap.

    The gap reaches from the largest logit down to the lower of the two tokens'. Where one of the two is on top, as it
    should be, that is the gap between them; where a third token is far ahead of both, neither is the target's choice.

    Args:
        one: The divergence.
        logits: `[vocabulary]`.
        dtype: Precision that the run's logits are rounded to.
    """
    values = logits.float()
    top = float(values.max())
    lower = float(values[[one.expected, one.got]].min())
    gap = (top - lower) / ulp(max(abs(top), abs(lower)), dtype)
    return one.model_copy(update={"gap_ulp": gap, "near_tie": gap <= TOLERANCE_ULP[dtype]})


@torch.inference_mode()
def last_logits(target: Transformer, tokens: Sequence[int]) -> Tensor:
    """Logits after `tokens`, `[vocabulary]`, prefilled in the same chunks as any prompt."""
    cache = target.new_cache(1, len(tokens))
    row = torch.tensor([list(tokens)], device=target.device)
    hidden = row
    for start in range(0, len(tokens), PREFILL_CHUNK):
        part = row[:, start : start + PREFILL_CHUNK]
        hidden = target(part, cache).hidden[:, -1:]
        cache.advance([part.shape[1]])
    return target.logits(hidden)[0, 0]

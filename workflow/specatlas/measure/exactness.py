"""The exactness gate: is the output plain decoding's, is the difference rounding, or is the method wrong?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from specatlas.catalog.card import Losslessness
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.errors import Refusal
from specatlas.measure.bench import Workload, baseline_arm, build_bench
from specatlas.measure.divergence import divergence, teacher_forced_judge
from specatlas.measure.failures import is_out_of_memory
from specatlas.measure.memory import free_memory
from specatlas.measure.questions import Question, groups
from specatlas.records.schema import Divergence, Exactness, Sample, Verdict

SMALLEST_P = 1e-4
"""A correct method fails the distribution test once in ten thousand runs; a biased one fails it almost surely."""


@dataclass(frozen=True)
class Gate:
    """What the fp32 check found.

    Attributes:
        prompts: Questions compared.
        divergences: First difference of each that differs; the gaps inform only, any difference is one too many.
        skipped: Why it did not run; empty where it did.
    """

    prompts: int = 0
    divergences: tuple[Divergence, ...] = ()
    skipped: str = ""


def claim_of(workload: Workload) -> Losslessness:
    """What the card promises at the workload's temperature."""
    lossless = workload.method.card.lossless
    return lossless.greedy if workload.sampling.greedy else lossless.sampling


def fp32_gate(workload: Workload, questions: Sequence[Question]) -> Gate:
    """Decodes questions greedily in fp32 with both arms and compares the ids.

    Nothing else should be loaded meanwhile, since the weights need twice the memory of half precision. Running out of
    memory skips the gate: it is not the method's fault. Whatever else the method raises is passed on.
    """
    if not questions:
        return Gate(skipped="gate_prompts is 0")
    free_memory()
    try:
        return _compared_in_fp32(workload, questions)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return Gate(skipped="the target in fp32 did not fit into memory")


def _compared_in_fp32(workload: Workload, questions: Sequence[Question]) -> Gate:
    stop = StopConditions(workload.settings.gate_tokens, workload.eos_ids)
    plain = baseline_arm(workload, workload.load_target(torch.float32), SamplingSettings(), stop)
    bench = build_bench(workload, plain, questions, check=True)
    judge = teacher_forced_judge(bench.target)
    found = []
    for group in groups(questions, workload.settings.batch):
        answers = zip(group, plain.answer(group), bench.method.answer(group), strict=True)
        for question, expected, got in answers:
            one = divergence(question, 0, expected, got)
            found += [judge(question, one, expected)] if one is not None else []
    return Gate(len(questions), tuple(found))


def repeats_itself(samples: Iterable[Sample], arm: str, again: Iterable[tuple[Question, Sequence[int]]] = ()) -> bool:
    """Whether an arm gave every question the same ids in every cycle, as greedy decoding must (known fault A02).

    Args:
        samples: The timed run's.
        arm: `method` or `baseline`.
        again: Answers of the same arm outside the timed run.
    """
    seen: dict[tuple[str, int], tuple[int, ...]] = {}
    answers = [((s.prompt_id, s.turn), s.ids) for s in samples if s.arm == arm]
    answers += [((question.prompt_id, question.turn), tuple(ids)) for question, ids in again]
    return all(seen.setdefault(key, ids) == ids for key, ids in answers)


def greedy_exactness(
    claim: Losslessness,
    gate: Gate,
    generations: int,
    differences: tuple[Divergence, ...],
    notes: Iterable[str] = (),
) -> Exactness:
    """The verdict at temperature 0.

    Args:
        claim: The card's.
        gate: The fp32 check; not run for lossy methods.
        generations: Generations of the timed run that were compared.
        differences: The timed run's, judged.
        notes: What else a reader should know.
    """
    verdict, detail = _greedy_verdict(claim, gate, generations, differences)
    return Exactness(
        verdict=verdict,
        detail=" ".join([detail, *notes]),
        fp32_prompts=gate.prompts,
        fp32_divergences=gate.divergences,
        run_generations=generations,
        run_divergences=differences,
    )


def _greedy_verdict(
    claim: Losslessness, gate: Gate, generations: int, differences: tuple[Divergence, ...]
) -> tuple[Verdict, str]:
    wrong = [one for one in differences if not one.near_tie]
    timed = f"{len(differences)} of {generations} timed generations differ from plain decoding"
    if claim is Losslessness.LOSSY:
        return Verdict.LOSSY, f"Lossy by design: {timed}."
    if gate.divergences:
        return Verdict.WRONG, (
            f"In fp32 {len(gate.divergences)} of {gate.prompts} prompts differ from plain decoding, "
            f"{_where(gate.divergences[0])}."
        )
    if wrong:
        return Verdict.WRONG, f"{timed}, {len(wrong)} of them by more than rounding, {_where(wrong[0])}."
    if gate.skipped:
        return Verdict.NOT_TESTED, f"The fp32 gate did not run ({gate.skipped}); {timed}."
    if differences:
        worst = max(one.gap_ulp or 0.0 for one in differences)
        return Verdict.NEAR_TIE, (f"{_identical(gate)}; {timed}, all at ties within rounding (at most {worst:g} ULP).")
    return Verdict.EXACT, f"{_identical(gate)}; all {generations} timed generations identical."


def _identical(gate: Gate) -> str:
    return f"In fp32 identical on {gate.prompts} prompt{'' if gate.prompts == 1 else 's'}"


def _where(one: Divergence) -> str:
    gap = "" if one.gap_ulp is None else f" (gap {one.gap_ulp:.3g} ULP)"
    return f"first {one.prompt_id}, turn {one.turn}, token {one.position}{gap}"


def sampling_exactness(workload: Workload) -> Exactness:
    """The verdict at temperatures above 0, where ids may differ and only the distribution counts."""
    if claim_of(workload) is Losslessness.LOSSY:
        return Exactness(verdict=Verdict.LOSSY, detail="Lossy by design.")
    from specatlas.measure.conformance import distribution_p_value

    try:
        p_value = float(
            distribution_p_value(workload.method, workload.catalog, workload.sampling, workload.settings.seed)
        )
    except Refusal as refusal:
        return Exactness(verdict=Verdict.NOT_TESTED, detail=f"The distribution test was refused: {refusal}")
    passed = p_value > SMALLEST_P
    return Exactness(
        verdict=Verdict.DISTRIBUTION if passed else Verdict.WRONG,
        detail=f"Distribution test on a tiny vocabulary: p = {p_value:.3g}{'' if passed else ', not the target’s'}.",
        distribution_p_value=p_value,
    )

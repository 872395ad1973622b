"""The timed run: both arms interleaved in the run's precision, and what only its loaded target can tell."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from specatlas import progress
from specatlas.catalog.card import Losslessness
from specatlas.measure.arms import Arm, interleave, schedule, warm_up
from specatlas.measure.bench import DTYPES, Bench, Workload, baseline_arm, build_bench
from specatlas.measure.divergence import run_divergences, teacher_forced_judge
from specatlas.measure.exactness import claim_of, repeats_itself
from specatlas.measure.latency import draft_pass_ns, step_latencies, typical_context, widths_needed
from specatlas.measure.load import LoadMeter
from specatlas.measure.memory import forget_peak, peak_bytes
from specatlas.measure.quality import quality
from specatlas.measure.questions import ChatEncoder, Question, groups, settle, spread
from specatlas.measure.seeds import order_seed
from specatlas.prompts.schema import Prompt
from specatlas.records.schema import Divergence, Memory, Quality, Sample, StepLatency

INSTRUMENTED = 4
"""Questions of the separate pass that splits the decoding time where the timed run must not."""


@dataclass(frozen=True)
class Timed:
    """What the timed run found; data only, so that the target can be freed.

    Attributes:
        differences: From plain decoding, judged; none at temperatures above 0.
        notes: What a reader of the verdict should know.
        foreign_load: Mean work of other processes, in cores.
    """

    questions: tuple[Question, ...]
    samples: tuple[Sample, ...]
    warmups: int
    differences: tuple[Divergence, ...]
    notes: tuple[str, ...]
    quality: Quality
    latency: tuple[StepLatency, ...]
    draft_pass_ns: float | None
    memory: Memory
    foreign_load: float


def timed_run(workload: Workload, prompts: Sequence[Prompt], encoder: ChatEncoder) -> Timed:
    """Loads the target, builds the method, warms up and times.

    Raises:
        Refusal: The method, or the engine, cannot work with this combination.
        Exception: Whatever the method raises.
    """
    settings = workload.settings
    forget_peak(workload.device)
    target = workload.load_target(DTYPES[settings.dtype])
    plain = baseline_arm(workload, target, workload.sampling, workload.stop)
    questions = settle(prompts, encoder, plain.answer, settings.batch)
    bench = build_bench(workload, plain, questions)
    warmups = warm_up(bench.arms, questions, settings.batch)
    meter = LoadMeter()
    with quiet_collector():
        samples = _samples(workload, bench, questions)
    load = meter.read() or 0.0
    # Before anything else runs: passes that only judge would add to the peak.
    memory = Memory(peak_bytes=peak_bytes(workload.device), extra_parameters=bench.drafter.extra_parameters)
    return Timed(
        questions=tuple(questions),
        samples=tuple(samples),
        warmups=warmups,
        differences=_differences(workload, bench, questions, samples),
        notes=_notes(workload, bench, questions, samples),
        quality=quality(target, samples, questions, lossy=claim_of(workload) is Losslessness.LOSSY),
        latency=step_latencies(target, widths_needed(samples), typical_context(samples), settings.batch),
        draft_pass_ns=draft_pass_ns(samples if bench.method.splits else _instrumented(workload, bench, questions)),
        memory=memory,
        foreign_load=load,
    )


def _samples(workload: Workload, bench: Bench, questions: Sequence[Question]) -> list[Sample]:
    settings = workload.settings
    slots = schedule(len(list(groups(questions, settings.batch))), settings.cycles, order_seed(settings.seed))
    samples: list[Sample] = []
    with progress.task(f"{workload.method.card.slug} beside plain decoding", len(slots)) as bar:
        for done in interleave(bench.arms, questions, slots, settings.batch):
            samples += done
            bar.advance(note=f"{done[0].prompt_id}, {done[0].arm}")
    return samples


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keeps Python's garbage collector from going through the models in the middle of a timing."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _differences(
    workload: Workload, bench: Bench, questions: Sequence[Question], samples: Sequence[Sample]
) -> tuple[Divergence, ...]:
    if not workload.sampling.greedy:
        return ()
    lossy = claim_of(workload) is Losslessness.LOSSY
    return run_divergences(samples, questions, None if lossy else teacher_forced_judge(bench.target))


def _notes(
    workload: Workload, bench: Bench, questions: Sequence[Question], samples: Sequence[Sample]
) -> tuple[str, ...]:
    """Decoding that does not repeat itself at temperature 0 is not deterministic, and its verdict is in doubt."""
    if not workload.sampling.greedy:
        return ()
    notes = []
    first = list(questions[: workload.settings.batch])
    again = zip(first, bench.baseline.answer(first), strict=True)
    if not repeats_itself(samples, "baseline", again):
        notes.append("Plain decoding gave different ids in different runs, so this machine is not deterministic.")
    if not repeats_itself(samples, "method"):
        notes.append("The method gave different ids in different cycles.")
    return tuple(notes)


def _instrumented(workload: Workload, bench: Bench, questions: Sequence[Question]) -> list[Sample]:
    """The method on a few questions with its time split, outside the timed run: on a GPU every split waits for it."""
    few = list(groups(spread(questions, INSTRUMENTED * workload.settings.batch), workload.settings.batch))
    method = bench.method.decoder
    arm = Arm(
        "method",
        bench.target,
        method.drafter,
        method.rule,
        method.settings,
        bench.method.stop,
        base_seed=workload.settings.seed,
        rebuild=bench.method.rebuild,
        time_phases=True,
    )
    return [sample for group in few for sample in arm.sample(group, 0, 0)]

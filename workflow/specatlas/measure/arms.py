"""The two arms of a unit, method and plain decoding, and their interleaved generations."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from specatlas.engine.decoding import Batch, Decoder, Generation
from specatlas.engine.drafter import Drafter, PlainDrafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import VerificationRule, make_rule
from specatlas.measure.clock import synchronizer
from specatlas.measure.load import LoadMeter
from specatlas.measure.questions import Question, groups
from specatlas.measure.seeds import generation_seed
from specatlas.records.schema import PhaseTimes, Sample, StepCounts

ArmName = Literal["method", "baseline"]
ARMS: tuple[ArmName, ArmName] = ("method", "baseline")


@dataclass(frozen=True)
class Slot:
    """One place in the interleaved order."""

    cycle: int
    group: int
    arm: ArmName


def schedule(group_count: int, cycles: int, seed: int) -> list[Slot]:
    """The interleaved order: in every cycle, groups in order, both arms side by side.

    Which arm goes first is drawn from `seed` in even cycles and swapped in odd ones, so that over a pair of cycles
    neither arm profits from its place (known fault K20).
    """
    draw, slots = random.Random(seed), []
    first: list[ArmName] = []
    for cycle in range(cycles):
        if cycle % 2 == 0:
            first = [ARMS[draw.random() < 0.5] for _ in range(group_count)]
        for group, drawn in enumerate(first):
            leads = (drawn == "method") == (cycle % 2 == 0)
            slots += [Slot(cycle, group, arm) for arm in (ARMS if leads else ARMS[::-1])]
    return slots


class Arm:
    """Decodes questions in one way.

    Args:
        name: Of the arm.
        target: The model whose output counts.
        drafter: The method.
        rule: Its verification rule.
        settings: Sampling settings.
        stop: When answers end.
        base_seed: The settings' seed.
        rebuild: Makes a fresh drafter; given for methods that carry state from prompt to prompt, which are measured
            cold: every generation gets a new drafter, made before the clock starts.
        time_phases: Split the decoding time; by default where that costs nothing, on a CPU.
        check: Verify the drafter's side of the contract at every step; outside timed runs.
    """

    def __init__(
        self,
        name: ArmName,
        target: Transformer,
        drafter: Drafter,
        rule: VerificationRule,
        settings: SamplingSettings,
        stop: StopConditions,
        *,
        base_seed: int,
        rebuild: Callable[[], Drafter] | None = None,
        time_phases: bool | None = None,
        check: bool = False,
    ) -> None:
        device = target.device
        split = device.type == "cpu" if time_phases is None else time_phases
        self.name, self.stop, self.splits = name, stop, split
        self._base_seed, self.rebuild = base_seed, rebuild
        self.decoder = Decoder(
            target, drafter, rule, settings, synchronize=synchronizer(device), time_phases=split, check=check
        )

    def decode(self, questions: Sequence[Question], cycle: int) -> Batch:
        """Answers a batch of questions."""
        if self.rebuild is not None:
            self.decoder.drafter = self.rebuild()
        seeds = [generation_seed(self._base_seed, q.prompt_id, q.turn, cycle) for q in questions]
        return self.decoder.generate([q.tokens for q in questions], self.stop, seeds)

    def answer(self, questions: Sequence[Question]) -> list[list[int]]:
        """Ids of the answers at cycle 0; for work outside the clock."""
        return [generation.ids for generation in self.decode(questions, 0).generations]

    def sample(self, questions: Sequence[Question], cycle: int, order: int) -> list[Sample]:
        """Answers a batch of questions and records each row.

        Rows of a batch share its clock: each carries the whole batch's times and draft passes, in both arms alike.
        """
        meter = LoadMeter()
        batch = self.decode(questions, cycle)
        load = meter.read()
        return [
            self._record(question, generation, batch, cycle, order, load)
            for question, generation in zip(questions, batch.generations, strict=True)
        ]

    def _record(
        self, question: Question, done: Generation, batch: Batch, cycle: int, order: int, load: float | None
    ) -> Sample:
        phases = batch.phases
        return Sample(
            prompt_id=question.prompt_id,
            category=question.category,
            turn=question.turn,
            cycle=cycle,
            arm=self.name,
            order=order,
            seed=generation_seed(self._base_seed, question.prompt_id, question.turn, cycle),
            prompt_tokens=len(question.tokens),
            ids=tuple(done.ids),
            steps=step_counts(done),
            finish=done.finish,
            prefill_ns=batch.prefill_ns,
            decode_ns=batch.decode_ns,
            draft_passes=batch.draft_passes,
            phases=PhaseTimes(**vars(phases)) if self.splits else None,
            load=load,
        )


def step_counts(done: Generation) -> StepCounts:
    """The counts of a generation, as the record keeps them."""
    return StepCounts(
        emitted=tuple(done.emitted),
        accepted=tuple(done.accepted),
        drafted=tuple(done.drafted),
        depth=tuple(done.depth),
        probes=tuple(done.probes),
    )


def plain_rule(settings: SamplingSettings) -> VerificationRule:
    """The rule of plain decoding: the target's argmax, or a sample from its own distribution."""
    return make_rule("greedy" if settings.greedy else "speculative_sampling")


def plain_arm(target: Transformer, settings: SamplingSettings, stop: StopConditions, *, base_seed: int) -> Arm:
    """Plain decoding: the same loop with an empty draft."""
    return Arm("baseline", target, PlainDrafter(), plain_rule(settings), settings, stop, base_seed=base_seed)


def warm_up(arms: Sequence[Arm], questions: Sequence[Question], batch: int) -> int:
    """Runs both arms on the run's own shapes and forgets the results; returns the generations run.

    The speculative path is warmed like the plain one (known faults K02, K03): a first group at full answer length, and
    the group with the longest prompt, which brings caches to their final size.
    """
    grouped = list(groups(questions, batch))
    longest = max(grouped, key=lambda group: max(len(question.tokens) for question in group))
    for group in (grouped[0], longest):
        for arm in arms:
            arm.decode(group, 0)
    return 2 * len(arms)


def interleave(
    arms: Sequence[Arm], questions: Sequence[Question], slots: Sequence[Slot], batch: int
) -> Iterator[list[Sample]]:
    """Yields the samples of every slot, as they are made."""
    by_name = {arm.name: arm for arm in arms}
    grouped = list(groups(questions, batch))
    for order, slot in enumerate(slots):
        yield by_name[slot.arm].sample(grouped[slot.group], slot.cycle, order)

"""The record of one unit: (machine, target, prompt set, settings, method). Counts come from token ids alone.

Acceptance length follows one definition everywhere (`AL-1`): tokens emitted ÷ verification steps, pooled, bonus token
included, the token from the prefill excluded, after trimming at EOS and limit.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=0)]
Nanoseconds = Annotated[int, Field(ge=0)]


class RecordModel(BaseModel):
    """Base of the record's parts: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UnitStatus(StrEnum):
    """How a unit ended. Everything but `ok` carries a reason and no numbers."""

    OK = "ok"
    FAILED = "failed"
    REFUSED = "refused"
    OUT_OF_MEMORY = "out_of_memory"


class Verdict(StrEnum):
    """What the exactness gate found.

    `exact`: fp32 greedy ids identical to plain decoding, and the timed run's ids too. `near_tie`: fp32 identical; in
    the timed run's half precision the first divergences are ties within rounding. `distribution`: T > 0, the
    distribution test on a tiny vocabulary passed. `lossy`: the method changes the output by design. `wrong`: a method
    that claims to be lossless is not. `not_tested`: no gate ran.
    """

    EXACT = "exact"
    NEAR_TIE = "near_tie"
    DISTRIBUTION = "distribution"
    LOSSY = "lossy"
    WRONG = "wrong"
    NOT_TESTED = "not_tested"


class UnitKey(RecordModel):
    """Names one unit; the record lies at `<machine>/<target>/<prompt_set>/<settings>/<method>.json`."""

    machine: str
    target: str
    prompt_set: str
    settings: str
    method: str

    @property
    def path(self) -> str:
        """The record's path below a folder of records."""
        return f"{self.machine}/{self.target}/{self.prompt_set}/{self.settings}/{self.method}.json"


class StepCounts(RecordModel):
    """Per verification step of one generation; all lists have one entry a step.

    Attributes:
        emitted: Tokens emitted by the step after trimming: the accepted ones and, unless cut off, the bonus token.
        accepted: Draft tokens among the emitted ones.
        drafted: Draft nodes sent to the target (a tree's nodes, not its depth); probes are not counted.
        depth: Longest path of the draft, in tokens; for a chain equal to `drafted`.
        probes: Probe positions scored in the same pass.
    """

    emitted: tuple[Count, ...]
    accepted: tuple[Count, ...]
    drafted: tuple[Count, ...]
    depth: tuple[Count, ...]
    probes: tuple[Count, ...]

    @model_validator(mode="after")
    def _identities(self) -> "StepCounts":
        lengths = {len(values) for values in (self.emitted, self.accepted, self.drafted, self.depth, self.probes)}
        if len(lengths) != 1:
            raise ValueError("all step lists must have one entry a step")
        for step, (emitted, accepted, drafted, depth) in enumerate(
            zip(self.emitted, self.accepted, self.drafted, self.depth, strict=True)
        ):
            last = step == len(self.emitted) - 1
            if emitted < 1:
                raise ValueError(f"step {step}: every step emits at least one token")
            if accepted != emitted - 1 and not (last and accepted == emitted):
                raise ValueError(f"step {step}: emitted {emitted} must be accepted {accepted} + 1 bonus token")
            if not accepted <= depth <= drafted:
                raise ValueError(f"step {step}: accepted {accepted} <= depth {depth} <= drafted {drafted} must hold")
        return self


class PhaseTimes(RecordModel):
    """Where the decoding time of one generation went, in nanoseconds, summed over its steps."""

    draft: Nanoseconds
    verify: Nanoseconds
    accept: Nanoseconds
    observe: Nanoseconds


class Sample(RecordModel):
    """One generation: one prompt, one turn, one cycle, one arm.

    Attributes:
        arm: `method`, or `baseline` (plain decoding: the same loop with an empty draft).
        order: Position in the unit's interleaved order.
        ids: Generated token ids, prompt excluded, prefill token and EOS included, trimmed.
        steps: Counts per verification step; Σ emitted = len(ids) - 1, since the first id comes from the prefill.
        prefill_ns: From the start of the generation to the first token.
        decode_ns: From the first token to the last; covers all work of the method, its start included.
        draft_passes: Passes of the drafter's own network or of a part of the target; 0 where it has none.
        phases: Split of `decode_ns`; null where it was not measured.
        load: Work of other processes on the machine during this generation, in cores.
    """

    prompt_id: str
    category: str
    turn: Count
    cycle: Count
    arm: Literal["method", "baseline"]
    order: Count
    seed: int
    prompt_tokens: Count
    ids: tuple[int, ...]
    steps: StepCounts
    finish: Literal["eos", "stop_string", "length"]
    prefill_ns: Nanoseconds
    decode_ns: Nanoseconds
    draft_passes: Count
    phases: PhaseTimes | None
    load: float | None

    @model_validator(mode="after")
    def _identities(self) -> "Sample":
        if len(self.ids) != sum(self.steps.emitted) + 1:
            raise ValueError(
                f"{self.prompt_id}: {len(self.ids)} ids, but the steps emitted {sum(self.steps.emitted)} + 1"
            )
        if self.arm == "baseline" and any(self.steps.drafted):
            raise ValueError(f"{self.prompt_id}: the baseline must not draft")
        return self


class Divergence(RecordModel):
    """First position at which a generation differs from plain decoding.

    Attributes:
        position: Index into the generated ids.
        gap_ulp: Teacher-forced logit gap between the two tokens there, in units in the last place of the larger logit
            in the run's precision; null where not judged.
        near_tie: Whether the gap is within the rounding that two evaluations of one logit may differ by.
    """

    prompt_id: str
    turn: Count
    cycle: Count
    position: Count
    expected: int
    got: int
    gap_ulp: float | None
    near_tie: bool


class Exactness(RecordModel):
    """What the gate did and found.

    Attributes:
        fp32_prompts: Prompts compared in fp32, greedy; 0 where that check did not run.
        fp32_divergences: Differences there; any one makes a lossless claim wrong.
        run_generations: Generations of the timed run compared with plain decoding (T = 0).
        run_divergences: Differences there, judged.
        distribution_p_value: Of the chi-square test on a tiny vocabulary (T > 0); null where it did not run.
    """

    verdict: Verdict
    detail: str
    fp32_prompts: Count = 0
    fp32_divergences: tuple[Divergence, ...] = ()
    run_generations: Count = 0
    run_divergences: tuple[Divergence, ...] = ()
    distribution_p_value: float | None = None


class Quality(RecordModel):
    """Quality of the method's output against plain decoding's; what lossy methods are judged by.

    Attributes:
        agreement: Share of generated positions, up to each prompt's first divergence, that equal plain decoding's.
        log_likelihood: Mean log-probability per token of the method's output under the target, in nats.
        baseline_log_likelihood: The same of plain decoding's output.
        repetition: Share of 4-grams of the output that occurred earlier in it.
        baseline_repetition: The same of plain decoding's output.
    """

    agreement: float = Field(ge=0, le=1)
    log_likelihood: float | None
    baseline_log_likelihood: float | None
    repetition: float = Field(ge=0, le=1)
    baseline_repetition: float = Field(ge=0, le=1)


class StepLatency(RecordModel):
    """Median time of one target pass over `width` new positions, measured in the unit at the run's context length."""

    width: int = Field(ge=1)
    context: Count
    nanoseconds: int = Field(gt=0)


class Memory(RecordModel):
    """Peak memory of the unit's process (resident on CPU, allocated on CUDA) and what the method adds.

    Attributes:
        peak_bytes: Peak of the whole unit.
        extra_parameters: Parameters that the method adds to the target's.
    """

    peak_bytes: Count
    extra_parameters: Count


class Environment(RecordModel):
    """Machine and software, enough to tell two runs apart."""

    machine: str
    cpu: str
    cores: int
    threads: int
    memory_bytes: int
    device: str
    accelerator: str | None
    python: str
    packages: dict[str, str]
    load_before: float
    load_after: float
    foreign_load: float
    clock: str = "perf_counter_ns"


class Provenance(RecordModel):
    """What the numbers depend on."""

    created: datetime
    specatlas: str
    commit: str | None
    dirty: bool | None
    method_sha256: str
    harness_sha256: str
    model_sha256: str
    prompts_sha256: str
    artifacts_sha256: dict[str, str]
    order_seed: int


class Record(RecordModel):
    """One unit, whole. A unit that did not end `ok` has a reason and none of the measured parts."""

    schema_version: Literal[1] = 1
    acceptance_length_definition: Literal["AL-1"] = "AL-1"
    unit: UnitKey
    status: UnitStatus
    reason: str | None
    error_code: str | None = None
    settings: dict[str, Any]
    hyperparameters: dict[str, int | float | bool | str]
    verification_rule: str | None
    provenance: Provenance
    environment: Environment
    n_prompts_in_set: Count
    samples: tuple[Sample, ...] = ()
    warmups: Count = 0
    exactness: Exactness | None = None
    quality: Quality | None = None
    latency: tuple[StepLatency, ...] = ()
    draft_pass_ns: float | None = None
    memory: Memory | None = None

    @model_validator(mode="after")
    def _identities(self) -> "Record":
        if self.status is UnitStatus.OK:
            if self.reason is not None:
                raise ValueError("reason: a unit that is ok has none")
            if not self.samples or self.exactness is None or self.memory is None:
                raise ValueError("a unit that is ok has samples, exactness and memory")
            _check_pairs(self.samples)
        else:
            if not self.reason:
                raise ValueError(f"reason: a unit that is {self.status} says why")
            if self.samples or self.exactness or self.quality or self.latency or self.memory:
                raise ValueError(f"a unit that is {self.status} has no numbers")
        return self


def _check_pairs(samples: tuple[Sample, ...]) -> None:
    """Every (prompt, turn, cycle) has exactly one generation of each arm."""
    seen = [(sample.prompt_id, sample.turn, sample.cycle, sample.arm) for sample in samples]
    if len(seen) != len(set(seen)):
        raise ValueError("samples: a (prompt, turn, cycle, arm) appears twice")
    method = {key[:3] for key in seen if key[3] == "method"}
    baseline = {key[:3] for key in seen if key[3] == "baseline"}
    if method != baseline:
        raise ValueError("samples: method and baseline must cover the same (prompt, turn, cycle)")

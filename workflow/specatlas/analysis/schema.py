"""The board as data: what `results/board.json` holds and every page is drawn from."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from specatlas.records.schema import Environment, UnitStatus, Verdict


def _six_digits(value: float) -> float:
    """Rounds to six significant digits."""
    return float(f"{value:.6g}")


# Rounded, so that two machines whose sums differ in the last bits publish the same bytes; NaN and infinity are refused.
Figure = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_six_digits)]


class BoardModel(BaseModel):
    """Base of the board's parts: unknown keys are refused, values do not change, JSON uses the public names."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)


class Interval(BoardModel):
    """A 95 % interval from a paired bootstrap over prompts, stratified by category."""

    low: Figure
    high: Figure


class Speedup(BoardModel):
    """Time per token of plain decoding ÷ that of the method, over the decode windows.

    Attributes:
        ratio_of_sums: From summed times and tokens of all prompts.
        geometric_mean: Of the per-prompt ratios.
        interval: Of the ratio of sums; null for a single prompt, which says nothing of spread.
    """

    ratio_of_sums: Figure
    geometric_mean: Figure
    interval: Interval | None


class PositionAcceptance(BoardModel):
    """Acceptance at one draft position (1 = first draft token).

    Attributes:
        drafted: Steps whose draft reached this position; not those that were cut by EOS or limit before it.
        reached: Of these, steps in which every earlier position was accepted.
        accepted: Steps in which this position was accepted.
    """

    position: int
    drafted: int
    reached: int
    accepted: int

    @property
    def joint(self) -> float | None:
        """Accepted ÷ drafted: probability that the position is accepted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def conditional(self) -> float | None:
        """Accepted ÷ reached: probability given that all earlier positions were."""
        return self.accepted / self.reached if self.reached else None


class Flag(BoardModel):
    """Something that a reader must know of a row; raised by a named check.

    Attributes:
        code: Name of the check.
        severity: `info`, `warning` (read the row with care) or `error` (do not trust the row; it is not ranked).
        message: One sentence with the figures that raised it.
    """

    code: str
    severity: Literal["info", "warning", "error"]
    message: str


class CategoryRow(BoardModel):
    """The figures of one row on one prompt category."""

    category: str
    n_prompts: int
    speedup: Speedup | None
    acceptance_length: Figure | None
    tokens_per_s: Figure | None


class Row(BoardModel):
    """One method on one board. A row without numbers has a status and a reason.

    Attributes:
        method_class: `draft_centric`, `model_centric` or `control`; `class` in JSON; `withdrawn` without a
            card.
        category: Path of the method's place in our taxonomy.
        n_prompts: Prompts that were decoded, whether or not there was something to time.
        n_tokens: Tokens that the method emitted in its decode windows, over all cycles.
        ranked: Whether the row competes (exact or distribution-preserving, complete, no error flag, not a control).
        unranked_reason: Why the row does not compete; null where it does.
        lossless: Whether the card claims losslessness at these settings and the gate did not find otherwise.
        rank: Best and worst rank that the data allow; null where unranked. Tied rows share ranges.
        acceptance_length: AL-1; `_vllm` and `_sglang` by the definitions of those systems, for outside numbers.
        acceptance_histogram: Steps by tokens emitted.
        target_passes_saved: 1 - target passes ÷ passes of plain decoding for the same tokens.
        cost_model_speedup: Speedup expected from acceptance and measured latencies alone.
        tokens_per_s: Of the decode windows, the method's; `baseline_tokens_per_s` plain decoding's in the same unit.
        prefill_ms: Median time to the first token.
        draft_share: Share of decoding time spent drafting (proposing and observing).
        outside_model_share: Share of decoding time outside model passes.
        acceptance_rate: Accepted ÷ drafted nodes.
        baseline_drift: Relative change of plain decoding's time per token from the first to the last third of the unit.
        divergences: Generations that the gate found to differ, in fp32 and in the timed run.
        log_likelihood_change: The method's mean log-probability per token minus plain decoding's, in nats.
        measured: When, from the record (ISO 8601).
        record: Path of the record below the folder of records.
        record_sha256: Of the record's file as the record store writes it.
    """

    method: str
    name: str
    method_class: str = Field(validation_alias=AliasChoices("class", "method_class"), serialization_alias="class")
    category: str
    status: UnitStatus
    reason: str | None
    n_prompts: int
    n_tokens: int
    ranked: bool
    unranked_reason: str | None
    lossless: bool
    rank: tuple[int, int] | None
    speedup: Speedup | None
    acceptance_length: Figure | None
    acceptance_length_vllm: Figure | None
    acceptance_length_sglang: Figure | None
    acceptance_rate: Figure | None
    acceptance_by_position: tuple[PositionAcceptance, ...]
    acceptance_histogram: dict[int, int]
    target_passes_saved: Figure | None
    cost_model_speedup: Figure | None
    tokens_per_s: Figure | None
    baseline_tokens_per_s: Figure | None
    prefill_ms: Figure | None
    draft_share: Figure | None
    outside_model_share: Figure | None
    peak_memory_bytes: int | None
    extra_parameters: int | None
    verdict: Verdict | None
    verdict_detail: str | None
    divergences: int | None
    agreement: Figure | None
    log_likelihood_change: Figure | None
    repetition: Figure | None
    baseline_repetition: Figure | None
    baseline_drift: Figure | None
    flags: tuple[Flag, ...]
    by_category: tuple[CategoryRow, ...]
    hyperparameters: dict[str, int | float | bool | str]
    verification_rule: str | None
    measured: str
    commit: str | None
    record: str
    record_sha256: str


class Board(BoardModel):
    """All rows of one (machine, target, prompt set, settings).

    Attributes:
        effective_settings, environment: Of the reference record, the latest of the largest group of comparable ones;
            rows that differ from it carry a flag.
        n_prompts: Prompts of the set.
    """

    machine: str
    target: str
    prompt_set: str
    settings: str
    effective_settings: dict[str, Any]
    environment: Environment
    n_prompts: int
    rows: tuple[Row, ...]


class Boards(BoardModel):
    """Everything: a pure function of records and cards, free of time stamps of its own."""

    boards: tuple[Board, ...]

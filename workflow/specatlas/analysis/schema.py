"""The board as data: what `results/board.json` holds and every page is drawn from."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from specatlas.records.schema import Environment, UnitStatus, Verdict


class BoardModel(BaseModel):
    """Base of the board's parts: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Interval(BoardModel):
    """A 95 % interval from a paired bootstrap over prompts, stratified by category."""

    low: float
    high: float


class Speedup(BoardModel):
    """Time per token of plain decoding ÷ that of the method, over the decode windows.

    Attributes:
        ratio_of_sums: From summed times and tokens of all prompts.
        geometric_mean: Of the per-prompt ratios.
        interval: Of the ratio of sums.
    """

    ratio_of_sums: float
    geometric_mean: float
    interval: Interval


class PositionAcceptance(BoardModel):
    """Acceptance at one draft position (1 = first draft token).

    Attributes:
        drafted: Steps whose draft reached this position.
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
    severity: str
    message: str


class CategoryRow(BoardModel):
    """The figures of one row on one prompt category."""

    category: str
    n_prompts: int
    speedup: Speedup
    acceptance_length: float
    tokens_per_s: float


class Row(BoardModel):
    """One method on one board. A row without numbers has a status and a reason.

    Attributes:
        method_class: `draft_centric`, `model_centric` or `control`; `class` in JSON.
        category: Path of the method's place in our taxonomy.
        ranked: Whether the row competes (exact or distribution-preserving, complete, no error flag, not a control).
        rank: Best and worst rank that the data allow; null where unranked. Tied rows share ranges.
        target_passes_saved: 1 - target passes ÷ passes of plain decoding for the same tokens.
        cost_model_speedup: Speedup expected from acceptance and measured latencies alone.
        draft_share: Share of decoding time spent drafting (proposing and observing).
        outside_model_share: Share of decoding time outside model passes.
        acceptance_rate: Accepted ÷ drafted nodes.
        baseline_drift: Relative change of plain decoding's time per token from the first to the last third of the unit.
    """

    method: str
    name: str
    method_class: str
    category: str
    status: UnitStatus
    reason: str | None
    n_prompts: int
    n_tokens: int
    ranked: bool
    lossless: bool
    rank: tuple[int, int] | None
    speedup: Speedup | None
    acceptance_length: float | None
    acceptance_length_vllm: float | None
    acceptance_length_sglang: float | None
    acceptance_rate: float | None
    acceptance_by_position: tuple[PositionAcceptance, ...]
    acceptance_histogram: dict[int, int]
    target_passes_saved: float | None
    cost_model_speedup: float | None
    tokens_per_s: float | None
    baseline_tokens_per_s: float | None
    prefill_ms: float | None
    draft_share: float | None
    outside_model_share: float | None
    peak_memory_bytes: int | None
    extra_parameters: int | None
    verdict: Verdict | None
    verdict_detail: str | None
    divergences: int | None
    agreement: float | None
    log_likelihood_change: float | None
    repetition: float | None
    baseline_repetition: float | None
    baseline_drift: float | None
    flags: tuple[Flag, ...]
    by_category: tuple[CategoryRow, ...]
    hyperparameters: dict[str, int | float | bool | str]
    verification_rule: str | None
    measured: str
    commit: str | None
    record: str
    record_sha256: str


class Board(BoardModel):
    """All rows of one (machine, target, prompt set, settings)."""

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

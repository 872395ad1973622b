"""From one record and its card to the figures of one row; flags and ranks come later, from the whole board."""

import hashlib
from collections.abc import Sequence
from statistics import median
from typing import Any

from specatlas.analysis import counts
from specatlas.analysis.cost_model import cost_model_speedup
from specatlas.analysis.schema import CategoryRow, Row
from specatlas.analysis.statistics import PromptTime, baseline_drift, speedup
from specatlas.catalog.card import Card, Losslessness
from specatlas.records.schema import Record, Sample, Verdict

WITHDRAWN = "withdrawn"


def make_row(path: str, record: Record, card: Card | None, times: Sequence[PromptTime]) -> Row:
    """The row of one record, not yet flagged or ranked.

    Args:
        path: Of the record, as the board names it.
        record: Any status; one that is not `ok` becomes a row without numbers.
        card: Null where the method is no longer in the catalog.
        times: `prompt_times` of the record's samples.
    """
    figures: dict[str, Any] = {
        **_identity(path, record, card),
        **_output(record),
        **_acceptance(counts.arm(record.samples, "method")),
        **_speed(record, times),
        "by_category": _by_category(record, times),
    }
    return Row(**figures)


def _identity(path: str, record: Record, card: Card | None) -> dict[str, Any]:
    return {
        "method": record.unit.method,
        "name": card.name if card else record.unit.method,
        "method_class": card.method_class.value if card else WITHDRAWN,
        "category": card.place.atlas if card else WITHDRAWN,
        "status": record.status,
        "reason": record.reason,
        "n_prompts": len({sample.prompt_id for sample in record.samples}),
        "ranked": False,
        "unranked_reason": None,
        "lossless": _lossless(record, card),
        "rank": None,
        "flags": (),
        "hyperparameters": record.hyperparameters,
        "verification_rule": record.verification_rule,
        "measured": record.provenance.created.isoformat(),
        "commit": record.provenance.commit,
        "record": path,
        "record_sha256": hashlib.sha256(f"{record.model_dump_json()}\n".encode()).hexdigest(),
    }


def _lossless(record: Record, card: Card | None) -> bool:
    """The card's claim at the record's temperature, unless the gate found otherwise."""
    if record.exactness is not None and record.exactness.verdict in (Verdict.LOSSY, Verdict.WRONG):
        return False
    if card is None:
        return record.exactness is not None and record.exactness.verdict is not Verdict.NOT_TESTED
    claim = card.lossless.sampling if record.settings.get("temperature") else card.lossless.greedy
    return claim in (Losslessness.EXACT, Losslessness.DISTRIBUTION)


def _output(record: Record) -> dict[str, Any]:
    """What the gate and the quality pass found, and what the output cost in memory."""
    exactness, quality, memory = record.exactness, record.quality, record.memory
    return {
        "verdict": exactness.verdict if exactness else None,
        "verdict_detail": exactness.detail if exactness else None,
        "divergences": len(exactness.fp32_divergences + exactness.run_divergences) if exactness else None,
        "agreement": quality.agreement if quality else None,
        "log_likelihood_change": _difference(quality.log_likelihood, quality.baseline_log_likelihood)
        if quality
        else None,
        "repetition": quality.repetition if quality else _repetition(record.samples, "method"),
        "baseline_repetition": quality.baseline_repetition if quality else _repetition(record.samples, "baseline"),
        "peak_memory_bytes": memory.peak_bytes if memory else None,
        "extra_parameters": memory.extra_parameters if memory else None,
    }


def _acceptance(method: list[Sample]) -> dict[str, Any]:
    return {
        "n_tokens": counts.emitted_tokens(method),
        "acceptance_length": counts.acceptance_length(method),
        "acceptance_length_vllm": counts.acceptance_length_vllm(method),
        "acceptance_length_sglang": counts.acceptance_length_sglang(method),
        "acceptance_rate": counts.acceptance_rate(method),
        "acceptance_by_position": counts.acceptance_by_position(method),
        "acceptance_histogram": counts.emitted_histogram(method),
        "target_passes_saved": counts.target_passes_saved(method),
    }


def _speed(record: Record, times: Sequence[PromptTime]) -> dict[str, Any]:
    method = counts.arm(record.samples, "method")
    return {
        "speedup": speedup(times),
        "cost_model_speedup": cost_model_speedup(method, record.latency, record.draft_pass_ns),
        "tokens_per_s": _tokens_per_s(times, "method"),
        "baseline_tokens_per_s": _tokens_per_s(times, "baseline"),
        "prefill_ms": median(sample.prefill_ns for sample in method) / 1e6 if method else None,
        "draft_share": draft_share(method),
        "outside_model_share": outside_model_share(method, record.draft_pass_ns),
        "baseline_drift": baseline_drift(record.samples),
    }


def _by_category(record: Record, times: Sequence[PromptTime]) -> tuple[CategoryRow, ...]:
    return tuple(
        _category_row(
            category,
            [sample for sample in record.samples if sample.category == category],
            [time for time in times if time.category == category],
        )
        for category in sorted({sample.category for sample in record.samples})
    )


def _category_row(category: str, samples: list[Sample], times: list[PromptTime]) -> CategoryRow:
    return CategoryRow(
        category=category,
        n_prompts=len({sample.prompt_id for sample in samples}),
        speedup=speedup(times),
        acceptance_length=counts.acceptance_length(counts.arm(samples, "method")),
        tokens_per_s=_tokens_per_s(times, "method"),
    )


def draft_share(method: Sequence[Sample]) -> float | None:
    """Time of proposing and observing ÷ decode time, over the generations whose phases were measured."""
    split = [(sample.phases, sample.decode_ns) for sample in method if sample.phases is not None]
    total = sum(decode_ns for _, decode_ns in split)
    return sum(phases.draft + phases.observe for phases, _ in split) / total if total else None


def outside_model_share(method: Sequence[Sample], draft_pass_ns: float | None) -> float | None:
    """Decode time that neither a target pass nor a draft pass accounts for, as a share.

    Null where phases were not measured, or where draft passes happened whose time is unknown. Draft passes enter with
    their typical time, so the share may come out slightly below 0; it is then 0.
    """
    split = [(sample, sample.phases) for sample in method if sample.phases is not None]
    total = sum(sample.decode_ns for sample, _ in split)
    passes = sum(sample.draft_passes for sample, _ in split)
    if not total or (passes and draft_pass_ns is None):
        return None
    in_models = sum(phases.verify for _, phases in split) + passes * (draft_pass_ns or 0.0)
    return max(0.0, 1 - in_models / total)


def _tokens_per_s(times: Sequence[PromptTime], arm: str) -> float | None:
    if not times:
        return None
    tokens = sum(getattr(time, f"{arm}_tokens") for time in times)
    return float(1e9 * tokens / sum(getattr(time, f"{arm}_ns") for time in times))


def _repetition(samples: Sequence[Sample], arm: str) -> float | None:
    return counts.repetition_rate(sample.ids for sample in counts.arm(samples, arm))


def _difference(value: float | None, baseline: float | None) -> float | None:
    return None if value is None or baseline is None else value - baseline

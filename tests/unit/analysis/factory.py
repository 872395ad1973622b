"""Synthetic but valid records with known speedups and acceptance."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from specatlas.analysis.evidence import CurrentHashes
from specatlas.catalog.card import Card
from specatlas.catalog.discovery import Catalog, Method
from specatlas.catalog.taxonomy import Taxonomy
from specatlas.records.schema import (
    Environment,
    Exactness,
    Memory,
    PhaseTimes,
    Provenance,
    Record,
    Sample,
    StepCounts,
    StepLatency,
    UnitKey,
    UnitStatus,
    Verdict,
)

CREATED = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
NS_PER_TOKEN = 10_000_000
HARNESS = "a" * 64
CLAIMS = {"greedy": "exact", "sampling": "distribution"}


def steps(accepted: Sequence[int], depth: int | Sequence[int] = 4, cut: bool = False, nodes: int = 1) -> StepCounts:
    """Steps of a draft `depth` tokens deep with `nodes` nodes a position; `cut`: the last step lost its bonus token."""
    depths = [depth] * len(accepted) if isinstance(depth, int) else list(depth)
    emitted = [count + 1 for count in accepted]
    if cut:
        emitted[-1] -= 1
    drafted = [value * nodes for value in depths]
    return StepCounts(emitted=emitted, accepted=accepted, drafted=drafted, depth=depths, probes=[0] * len(accepted))


def plain(tokens: int) -> StepCounts:
    """Steps of plain decoding."""
    return steps([0] * tokens, depth=0)


def sample(counts: StepCounts, **changes: Any) -> Sample:
    """A generation with these steps; 10 ms a token."""
    tokens = sum(counts.emitted)
    values: dict[str, Any] = {
        "prompt_id": "p0",
        "category": "writing",
        "turn": 0,
        "cycle": 0,
        "arm": "method",
        "order": 0,
        "seed": 0,
        "prompt_tokens": 12,
        "ids": tuple(range(tokens + 1)),
        "steps": counts,
        "finish": "length",
        "prefill_ns": 20_000_000,
        "decode_ns": tokens * NS_PER_TOKEN,
        "draft_passes": 0,
        "phases": None,
        "load": 0.0,
    }
    return Sample(**{**values, **changes})


@dataclass(frozen=True)
class Unit:
    """Recipe of one record.

    Attributes:
        speedup: True speedup.
        spread: Standard deviation of the per-prompt log speedup.
        noise: Standard deviation of one generation's log time.
        accepted: Accepted tokens of each method step of a prompt.
        suite: Prompts by category.
    """

    method: str = "lookup"
    speedup: float = 1.5
    spread: float = 0.1
    noise: float = 0.01
    accepted: tuple[int, ...] = (3, 0, 2, 4, 1)
    depth: int = 4
    suite: tuple[tuple[str, int], ...] = (("coding", 6), ("writing", 6))
    cycles: int = 2
    drift: float = 0.0
    seed: int = 0
    verdict: Verdict = Verdict.EXACT
    changes: dict[str, Any] = field(default_factory=dict)

    def record(self, **changes: Any) -> Record:
        """The record; `changes` replace its fields."""
        return make_record(replace(self, changes={**self.changes, **changes}))


def make_samples(unit: Unit) -> tuple[Sample, ...]:
    """Both arms of every prompt and cycle, interleaved."""
    generator = np.random.default_rng(unit.seed)
    counts = steps(unit.accepted, unit.depth)
    tokens = sum(counts.emitted)
    prompts = [(f"{category}_{i}", category) for category, size in unit.suite for i in range(size)]
    speedups = unit.speedup * np.exp(generator.normal(0, unit.spread, len(prompts)))
    found: list[Sample] = []
    for cycle in range(unit.cycles):
        for (prompt, category), speedup in zip(prompts, speedups, strict=True):
            for arm in ("baseline", "method"):
                progress = len(found) / (2 * unit.cycles * len(prompts))
                slower = np.exp(generator.normal(0, unit.noise)) * (1 + unit.drift * progress)
                time = NS_PER_TOKEN * tokens * slower / (speedup if arm == "method" else 1)
                decode_ns = int(time)
                found.append(
                    sample(
                        counts if arm == "method" else plain(tokens),
                        prompt_id=prompt,
                        category=category,
                        cycle=cycle,
                        arm=arm,
                        order=len(found),
                        decode_ns=decode_ns,
                        draft_passes=len(unit.accepted) if arm == "method" else 0,
                        phases=PhaseTimes(
                            draft=decode_ns // 10, verify=decode_ns // 2, accept=decode_ns // 5, observe=decode_ns // 10
                        ),
                    )
                )
    return tuple(found)


def make_record(unit: Unit) -> Record:
    """A record with status `ok`, unless `changes` says otherwise."""
    values: dict[str, Any] = {
        "unit": UnitKey(machine="cpu2", target="tiny", prompt_set="atlas", settings="greedy", method=unit.method),
        "status": UnitStatus.OK,
        "reason": None,
        "settings": {"temperature": 0.0, "dtype": "bfloat16", "max_new_tokens": 128},
        "hyperparameters": {"gamma": 4},
        "verification_rule": "greedy",
        "provenance": provenance(unit.method),
        "environment": environment(),
        "n_prompts_in_set": sum(size for _, size in unit.suite),
        "samples": make_samples(unit),
        "exactness": Exactness(verdict=unit.verdict, detail="made up"),
        "latency": (
            StepLatency(width=1, context=64, nanoseconds=10_000_000),
            StepLatency(width=5, context=64, nanoseconds=12_000_000),
        ),
        "draft_pass_ns": 1_000_000.0,
        "memory": Memory(peak_bytes=1 << 30, extra_parameters=0),
    }
    return Record(**{**values, **unit.changes})


def failed_record(method: str = "eagle", status: UnitStatus = UnitStatus.FAILED) -> Record:
    """A record without numbers."""
    return make_record(
        Unit(
            method,
            changes={
                "status": status,
                "reason": "IndexError: out of range",
                "samples": (),
                "exactness": None,
                "latency": (),
                "draft_pass_ns": None,
                "memory": None,
            },
        )
    )


def environment(**changes: Any) -> Environment:
    values: dict[str, Any] = {
        "machine": "cpu2",
        "cpu": "made-up cpu",
        "cores": 2,
        "threads": 2,
        "memory_bytes": 1 << 33,
        "device": "cpu",
        "accelerator": None,
        "python": "3.11",
        "packages": {"torch": "2.13.0"},
        "load_before": 0.0,
        "load_after": 0.0,
        "foreign_load": 0.0,
    }
    return Environment(**{**values, **changes})


def provenance(method: str, **changes: Any) -> Provenance:
    values: dict[str, Any] = {
        "created": CREATED + timedelta(seconds=len(method)),
        "specatlas": "0.1.0",
        "commit": "c" * 40,
        "dirty": False,
        "method_sha256": method_hash(method),
        "harness_sha256": HARNESS,
        "model_sha256": "d" * 64,
        "prompts_sha256": "e" * 64,
        "artifacts_sha256": {},
        "order_seed": 7,
    }
    return Provenance(**{**values, **changes})


def method_hash(slug: str) -> str:
    return f"{slug:_<64}"


def card(slug: str, **changes: Any) -> Card:
    """A runnable card; the class follows from the place."""
    place = changes.pop("place", "draft_centric/retrieval")
    values: dict[str, Any] = {
        "slug": slug,
        "name": slug.replace("_", " ").title(),
        "summary": "Made up.",
        "class": place.split("/")[0],
        "place": {"atlas": place},
        "draft_shape": "chain",
        "lossless": CLAIMS,
        "verification": {"greedy": "greedy", "sampling": "speculative"},
        "status": "runnable",
    }
    return Card.model_validate({**values, **changes})


CONTROLS = ("oracle", "random_draft", "autoregressive_twin")


def catalog(*slugs: str) -> Catalog:
    """The controls, a lossy method and `slugs`."""
    cards = [card(slug) for slug in slugs]
    cards += [card(slug, place="control/reference") for slug in CONTROLS[:2]]
    cards.append(card(CONTROLS[2], place="control/reference", draft_shape="none"))
    cards.append(card("typical", lossless={"greedy": "lossy", "sampling": "lossy"}))
    return Catalog({item.slug: Method(item, Path("methods") / item.slug) for item in cards}, Taxonomy(classes=()))


def hashes(*slugs: str) -> CurrentHashes:
    return CurrentHashes(HARNESS, {slug: method_hash(slug) for slug in (*slugs, *CONTROLS, "typical")})

"""What the checks look at: one row with everything that it came from."""

from collections.abc import Mapping
from dataclasses import dataclass

from specatlas.analysis.schema import Row
from specatlas.analysis.statistics import PromptTime
from specatlas.catalog.card import Card
from specatlas.catalog.discovery import Catalog
from specatlas.records.schema import Record

# Settings that change what is decoded or how; two rows that differ in one do not belong in one ranking.
DECODING_SETTINGS = ("dtype", "temperature", "top_k", "top_p", "max_new_tokens", "batch")


@dataclass(frozen=True)
class CurrentHashes:
    """Source hashes of the current checkout, to tell stale rows.

    Attributes:
        harness: Of the measuring modules; null where staleness of the harness is not asked for.
        methods: Of each method's own files, by slug.
    """

    harness: str | None
    methods: Mapping[str, str]


def current_hashes(catalog: Catalog, harness: str | None) -> CurrentHashes:
    """Hashes of the catalog's methods beside the given one of the harness."""
    return CurrentHashes(harness, {slug: method.source_sha256 for slug, method in catalog.methods.items()})


@dataclass(frozen=True)
class Evidence:
    """A row and its sources.

    Attributes:
        row: The figures, not yet flagged.
        card: Null where the method is no longer in the catalog.
        times: Of the row's prompts.
        oracle: Times of the oracle control on the same board; null where it was not measured.
        reference: The record that the board's rows are compared with.
    """

    record: Record
    row: Row
    card: Card | None
    hashes: CurrentHashes
    times: tuple[PromptTime, ...]
    oracle: tuple[PromptTime, ...] | None
    reference: Record


def decoding_settings(record: Record) -> tuple[object, ...]:
    """The values of `DECODING_SETTINGS`; null where a record has none."""
    return tuple(record.settings.get(name) for name in DECODING_SETTINGS)


def workload(record: Record) -> tuple[object, ...]:
    """What was decoded: weights, prompts and settings."""
    return (record.provenance.model_sha256, record.provenance.prompts_sha256, *decoding_settings(record))


def platform(record: Record) -> dict[str, object]:
    """What of machine and software moves a time: hardware, threads and the torch version."""
    environment = record.environment
    return {
        "cpu": environment.cpu,
        "accelerator": environment.accelerator,
        "cores": environment.cores,
        "threads": environment.threads,
        "torch": environment.packages.get("torch"),
    }

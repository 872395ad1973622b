"""The published records, `data/results/`: checked copies of `results/records/`, named by content, never overwritten.

A record lies at `<machine>/<target>/<prompt_set>/<settings>/<method>/<date>-<hash8>.json`. The folder only grows: a
unit that is measured again gets another file beside the earlier one, and the board shows the newest of each unit,
published or local.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from specatlas.errors import RecordError
from specatlas.files import atomic_path
from specatlas.project import Project
from specatlas.records.schema import Record, Verdict
from specatlas.records.store import iterate_records


@dataclass(frozen=True)
class Publication:
    """What became of one local record.

    Attributes:
        source: The local record, relative to the project.
        target: The published copy, relative to the project; null where it was refused.
        outcome: `published`, `already there` or `refused`.
        reason: Why it was refused.
    """

    source: str
    target: str | None
    outcome: str
    reason: str | None = None


def iterate_published(folder: Path) -> Iterator[tuple[Path, Record]]:
    """Yields (path, record) for every published record, sorted by path.

    Raises:
        RecordError: A file is not a record, lies at another unit's path or differs from the hash in its name.
    """
    for path in sorted(folder.glob("*/*/*/*/*/*.json")):
        yield path, read_published(path)


def read_published(path: Path) -> Record:
    """Reads one published record.

    Raises:
        RecordError: As `iterate_published`.
    """
    content = path.read_bytes()
    try:
        record = Record.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "record"
        raise RecordError(f"{path}: {key}: {first['msg']}; restore the published file.") from error
    if not path.parent.as_posix().endswith(record.unit.path.removesuffix(".json")):
        raise RecordError(f"{path}: holds the unit {record.unit.path}; move the file there.")
    if path.name != _name(record, content):
        raise RecordError(f"{path}: the content was changed after publishing; restore the file.")
    return record


def all_records(project: Project) -> Iterator[tuple[str, Record]]:
    """Yields (path relative to the project, record) of the published records, then of the local ones."""
    sources = (
        (project.published, iterate_published(project.published)),
        (project.results / "records", iterate_records(project.results / "records")),
    )
    for folder, records in sources:
        prefix = "data/results" if folder == project.published else "results/records"
        for path, record in records:
            yield f"{prefix}/{path.relative_to(folder).as_posix()}", record


def publish_records(
    project: Project, methods: Mapping[str, str], harness: str, *, allow_dirty: bool = False
) -> list[Publication]:
    """Copies every checked local record that is not published yet.

    Args:
        methods: Current source hash by method; a record of other sources is refused, since nobody could repeat it.
        harness: Current hash of the measuring modules; likewise.
        allow_dirty: Also publish records measured in a checkout with uncommitted changes.
    """
    return [
        _publish(project, path, record, methods, harness, allow_dirty)
        for path, record in iterate_records(project.results / "records")
    ]


def _publish(
    project: Project, path: Path, record: Record, methods: Mapping[str, str], harness: str, allow_dirty: bool
) -> Publication:
    source = path.relative_to(project.root).as_posix() if path.is_relative_to(project.root) else path.as_posix()
    reason = _refusal(record, methods, harness, allow_dirty)
    if reason is not None:
        return Publication(source, None, "refused", reason)
    content = path.read_bytes()
    target = project.published / record.unit.path.removesuffix(".json") / _name(record, content)
    shown = f"data/results/{target.relative_to(project.published).as_posix()}"
    if target.exists():
        return Publication(source, shown, "already there")
    with atomic_path(target) as temporary:
        temporary.write_bytes(content)
    return Publication(source, shown, "published")


def _refusal(record: Record, methods: Mapping[str, str], harness: str, allow_dirty: bool) -> str | None:
    provenance = record.provenance
    if record.unit.method not in methods:
        return "the method is no longer in the catalog"
    if provenance.method_sha256 != methods[record.unit.method]:
        return "stale: the method's sources have changed since it was measured"
    if provenance.harness_sha256 != harness:
        return "stale: the measuring modules have changed since it was measured"
    if provenance.dirty and not allow_dirty:
        return "measured in a checkout with uncommitted changes; commit and measure again, or give --allow-dirty"
    if record.exactness is not None and record.exactness.verdict is Verdict.WRONG:
        return f"the exactness gate says wrong: {record.exactness.detail}"
    return None


def _name(record: Record, content: bytes) -> str:
    return f"{record.provenance.created:%Y-%m-%d}-{hashlib.sha256(content).hexdigest()[:8]}.json"

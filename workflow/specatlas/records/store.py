"""Reading and writing records: validated both ways, written atomically."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from specatlas.errors import RecordError
from specatlas.files import write_text
from specatlas.records.schema import Record, UnitKey


def write_record(folder: Path, record: Record) -> Path:
    """Writes `record` below `folder` and returns its path."""
    path = folder / record.unit.path
    write_text(path, record.model_dump_json() + "\n")
    return path


def read_record(path: Path) -> Record:
    """Reads one record.

    Raises:
        RecordError: Not JSON, breaks the schema or an identity, or lies at another unit's path.
    """
    try:
        record = Record.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "record"
        raise RecordError(f"{path}: {key}: {first['msg']}; remove the file and measure the unit again.") from error
    if not path.as_posix().endswith(record.unit.path):
        raise RecordError(f"{path}: holds the unit {record.unit.path}; move the file there or remove it.")
    return record


def iterate_records(folder: Path) -> Iterator[tuple[Path, Record]]:
    """Yields (path, record) for every record below `folder`, sorted by path."""
    for path in sorted(folder.glob("*/*/*/*/*.json")):
        yield path, read_record(path)


def unit_of_path(path: Path) -> UnitKey:
    """The unit that a record's path names, without reading it."""
    machine, target, prompt_set, settings, name = path.parts[-5:]
    return UnitKey(machine=machine, target=target, prompt_set=prompt_set, settings=settings, method=Path(name).stem)

"""Boards from records: a pure function, so the same records and cards give the same bytes."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from specatlas.analysis.evidence import CurrentHashes, Evidence, platform, workload
from specatlas.analysis.flags import ORACLE, raise_flags
from specatlas.analysis.ranking import rank_ranges, unranked_reason
from specatlas.analysis.rows import make_row
from specatlas.analysis.schema import Board, Boards, Row
from specatlas.analysis.statistics import PromptTime, prompt_times
from specatlas.catalog.card import Card
from specatlas.catalog.discovery import Catalog
from specatlas.errors import RecordError
from specatlas.files import write_text
from specatlas.records.schema import Record, UnitStatus
from specatlas.records.store import iterate_records

PathedRecord = tuple[str, Record]
BoardKey = tuple[str, str, str, str]


def build_boards(records: Iterable[PathedRecord], catalog: Catalog, hashes: CurrentHashes) -> Boards:
    """Groups records into boards and ranks each.

    Args:
        records: (path as the board shall name it, record), in any order. Of two records of one unit the later counts.
        catalog: Cards by slug; a record whose method has none becomes a row flagged `withdrawn`.
        hashes: Of the current checkout, to tell stale rows.
    """
    cards = {slug: method.card for slug, method in catalog.methods.items()}
    groups = _grouped(records)
    return Boards(boards=tuple(_board(key, groups[key], cards, hashes) for key in sorted(groups)))


def board_from_folder(folder: Path, catalog: Catalog, hashes: CurrentHashes) -> Boards:
    """Boards of all records below `folder`, named by their paths relative to it.

    Raises:
        RecordError: A record is broken or lies at another unit's path.
    """
    records = ((path.relative_to(folder).as_posix(), record) for path, record in iterate_records(folder))
    return build_boards(records, catalog, hashes)


def boards_to_json(boards: Boards) -> str:
    """The boards as JSON text with a final newline."""
    return boards.model_dump_json(indent=2) + "\n"


def write_boards(path: Path, boards: Boards) -> None:
    """Writes `boards` atomically."""
    write_text(path, boards_to_json(boards))


def read_boards(path: Path) -> Boards:
    """Reads boards.

    Raises:
        RecordError: No such file, not JSON or not a board; says which key.
    """
    try:
        return Boards.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror}); build the board first.") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "board"
        raise RecordError(f"{path}: {key}: {first['msg']}; build the board again from its records.") from error


def _grouped(records: Iterable[PathedRecord]) -> dict[BoardKey, list[PathedRecord]]:
    """Records by board, the latest of each unit, sorted by method."""
    latest: dict[str, PathedRecord] = {}
    for path, record in sorted(records, key=lambda item: (item[1].provenance.created, item[0])):
        latest[record.unit.path] = (path, record)
    groups: dict[BoardKey, list[PathedRecord]] = defaultdict(list)
    for _, (path, record) in sorted(latest.items()):
        unit = record.unit
        groups[unit.machine, unit.target, unit.prompt_set, unit.settings].append((path, record))
    return groups


def _board(key: BoardKey, records: list[PathedRecord], cards: dict[str, Card], hashes: CurrentHashes) -> Board:
    machine, target, prompt_set, settings = key
    reference = _reference([record for _, record in records])
    times = {record.unit.method: prompt_times(record.samples) for _, record in records}
    evidence = [
        Evidence(
            record=record,
            row=make_row(path, record, cards.get(slug), times[slug]),
            card=cards.get(slug),
            hashes=hashes,
            times=times[slug],
            oracle=times.get(ORACLE) or None,
            reference=reference,
        )
        for slug, path, record in ((record.unit.method, path, record) for path, record in records)
    ]
    rows = _ranked([_flagged(item) for item in evidence], times)
    return Board(
        machine=machine,
        target=target,
        prompt_set=prompt_set,
        settings=settings,
        effective_settings=reference.settings,
        environment=reference.environment,
        n_prompts=reference.n_prompts_in_set,
        rows=tuple(sorted(rows, key=_place_on_board)),
    )


def _reference(records: list[Record]) -> Record:
    """The record that the others are compared with: the latest of the largest group of comparable ones."""
    groups = [(*workload(record), *platform(record).values()) for record in records]
    sizes = Counter(groups)

    def claim(item: tuple[Record, tuple[object, ...]]) -> tuple[object, ...]:
        record, group = item
        return record.status is UnitStatus.OK, sizes[group], record.provenance.created, record.unit.method

    return max(zip(records, groups, strict=True), key=claim)[0]


def _flagged(evidence: Evidence) -> Row:
    """The row with its flags, and whether it competes."""
    row = evidence.row.model_copy(update={"flags": raise_flags(evidence)})
    reason = unranked_reason(row)
    return row.model_copy(update={"unranked_reason": reason, "ranked": reason is None})


def _ranked(rows: list[Row], times: dict[str, tuple[PromptTime, ...]]) -> list[Row]:
    """The rows with their rank ranges; those that do not compete keep null."""
    ranges = rank_ranges({row.method: times[row.method] for row in rows if row.ranked})
    return [row.model_copy(update={"rank": ranges.get(row.method)}) for row in rows]


def _place_on_board(row: Row) -> tuple[int, float, str]:
    """Sort key: competing rows, controls, lossy ones, other unranked ones, those without numbers; fastest first."""
    groups = (
        row.ranked,
        row.status is UnitStatus.OK and row.method_class == "control",
        row.status is UnitStatus.OK and (row.unranked_reason or "").startswith("lossy"),
        row.status is UnitStatus.OK,
        True,
    )
    return groups.index(True), -row.speedup.ratio_of_sums if row.speedup else 0.0, row.method

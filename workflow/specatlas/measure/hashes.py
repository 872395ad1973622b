"""What records and artifacts depend on, as hashes. Imports no torch."""

from collections.abc import Iterable
from pathlib import Path

import specatlas
from specatlas.files import sha256_of_file, sha256_of_files
from specatlas.models.checkpoint import read_provenance

HARNESS = ("engine", "drafting", "measure", "records", "prompts", "models/tokenizer.py")
TRAINING = ("engine", "drafting", "training")
NOT_MEASURING = ("measure/single.py", "measure/peers")
"""Commands that print and write no record."""


def harness_sha256(package: Path | None = None) -> str:
    """Hash of the sources that a record depends on besides the method's own.

    Args:
        package: Folder of the `specatlas` package; the running one by default.
    """
    return _sources_sha256(package or _package(), HARNESS, NOT_MEASURING)


def training_sha256(package: Path | None = None) -> str:
    """Hash of the sources that a trained or searched artifact depends on besides the method's own."""
    return _sources_sha256(package or _package(), TRAINING, ())


def _package() -> Path:
    return Path(specatlas.__file__).parent


def _sources_sha256(package: Path, parts: Iterable[str], left_out: Iterable[str]) -> str:
    files: set[Path] = set()
    for part in parts:
        path = package / part
        files.update(path.rglob("*.py") if path.is_dir() else [path] if path.is_file() else [])
    excluded = [package / part for part in left_out]
    kept = (file for file in files if not any(file == part or part in file.parents for part in excluded))
    return sha256_of_files(kept, package)


def model_sha256(folder: Path) -> str:
    """Hash of a checkpoint: the one that fetching recorded, or of its config and safetensors files."""
    provenance = read_provenance(folder)
    if provenance is not None:
        return provenance.checkpoint_sha256
    return sha256_of_files([*folder.glob("*.safetensors"), *folder.glob("config.json")], folder)


def artifact_hashes(files: dict[str, Path]) -> dict[str, str]:
    """Hash of each artifact file that exists, by the slug of the method that makes it."""
    return {slug: sha256_of_file(path) for slug, path in files.items() if path.is_file()}

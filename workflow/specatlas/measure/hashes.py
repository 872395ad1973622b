"""What records and artifacts depend on, as hashes. Imports no torch."""

import json
from collections.abc import Iterable
from pathlib import Path

import specatlas
from specatlas.files import sha256_of_file, sha256_of_files

HARNESS = ("engine", "drafting", "measure", "records", "prompts", "models/tokenizer.py")
TRAINING = ("engine", "drafting", "training")
NOT_MEASURING = ("measure/single.py", "measure/peers")
"""Commands that print and write no record."""

PROVENANCE_FILE = "provenance.json"
_WEIGHTS_KEY = "sha256"


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
    """Hash of a checkpoint's weights: the one that fetching recorded, or of config and safetensors files."""
    recorded = _recorded_sha256(folder / PROVENANCE_FILE)
    if recorded is not None:
        return recorded
    return sha256_of_files([*folder.glob("*.safetensors"), *folder.glob("config.json")], folder)


def _recorded_sha256(path: Path) -> str | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8")).get(_WEIGHTS_KEY)
    except (OSError, json.JSONDecodeError, AttributeError):
        return None
    return value if isinstance(value, str) else None


def artifact_hashes(files: dict[str, Path]) -> dict[str, str]:
    """Hash of each artifact file that exists, by the slug of the method that makes it."""
    return {slug: sha256_of_file(path) for slug, path in files.items() if path.is_file()}

"""A checkpoint folder: which files it may hold, what makes it whole, and its provenance. No torch here."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from specatlas.errors import ModelSourceError
from specatlas.files import sha256_of_file, sha256_of_json, write_json

PROVENANCE = "provenance.json"
INDEX = "model.safetensors.index.json"
# Small files that a checkpoint may come with. Weights are only ever *.safetensors: pickles run code when loaded.
SIDE_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    INDEX,
)
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class FileStamp(BaseModel):
    """Size and hash of one file.

    Attributes:
        bytes: Its size.
        sha256: Hex SHA-256 of its bytes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: int
    sha256: str


class Provenance(BaseModel):
    """Where a checkpoint folder came from; `provenance.json` in it, written last.

    Attributes:
        model: Model id.
        source: The source as written in `data/models.yaml`.
        revision: The commit that a hub repository was at; null for other sources.
        request: Hash of everything in the model's entry that decides the folder's bytes.
        licence: Licence of the weights.
        family: Architecture family.
        dequantised_from: Quantised format that the weights went through.
        notes: What the conversion did, and with which versions.
        template_arguments: Passed to the chat template.
        weights_sha256: Hash of the weights: of the one file, or of the shards' names and hashes together.
        files: Every other file by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    source: str
    revision: str | None
    request: str
    licence: str
    family: str
    dequantised_from: str | None
    notes: dict[str, str | float | int]
    template_arguments: dict[str, bool | int | str]
    weights_sha256: str
    files: dict[str, FileStamp]

    @property
    def checkpoint_sha256(self) -> str:
        """One hash over all files, config and tokenizer included; what records name a model by."""
        return sha256_of_json({name: stamp.sha256 for name, stamp in self.files.items()})


def read_provenance(folder: Path) -> Provenance | None:
    """The provenance of a finished checkpoint; None where the folder has none or an unreadable one."""
    try:
        return Provenance.model_validate_json((folder / PROVENANCE).read_text(encoding="utf-8"))
    except (OSError, ValueError, ValidationError):
        return None


def write_provenance(folder: Path, provenance: Provenance) -> None:
    """Writes `provenance.json`; a folder with it is whole."""
    write_json(folder / PROVENANCE, provenance.model_dump(mode="json"))


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that hold the checkpoint: `model.safetensors`, or the shards that the index names.

    Raises:
        ModelSourceError: None, pickled ones only, or a shard is missing; says which.
    """
    index = folder / INDEX
    if index.is_file():
        shards = sorted(set(_read_json(index).get("weight_map", {}).values()))
        missing = [name for name in shards if Path(name).name != name or not (folder / name).is_file()]
        if missing or not shards:
            raise ModelSourceError(f"{folder}: {INDEX} names {missing[:2] or 'no shards'}, not found; copy them again.")
        return [folder / name for name in shards]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        raise ModelSourceError(
            f"{folder} holds only pickled weights ({', '.join(pickles[:3])}), which can run code when they are loaded; "
            "convert them to model.safetensors first."
        )
    raise ModelSourceError(f"{folder} has neither model.safetensors nor {INDEX}; give a folder with a checkpoint.")


def check_checkpoint(folder: Path) -> list[Path]:
    """The files of a checkpoint folder that count, after a check that nothing is missing.

    Raises:
        ModelSourceError: No folder, no config, no safetensors weights, or no tokenizer.
    """
    if not folder.is_dir():
        raise ModelSourceError(f"{folder} is not a folder; give the path of a checkpoint folder.")
    weights = weight_files(folder)
    if "model_type" not in _read_json(folder / "config.json"):
        raise ModelSourceError(f"{folder}/config.json names no model_type; give a Hugging Face checkpoint.")
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ModelSourceError(f"{folder} has no tokenizer ({', '.join(TOKENIZER_FILES)}); copy it beside the weights.")
    return weights + [folder / name for name in SIDE_FILES if (folder / name).is_file()]


def stamp_files(folder: Path) -> dict[str, FileStamp]:
    """Size and hash of every file of the checkpoint in `folder`, the provenance itself excluded."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != PROVENANCE)
    return {
        name: FileStamp(bytes=(folder / name).stat().st_size, sha256=sha256_of_file(folder / name)) for name in names
    }


def drop_versions(folder: Path) -> None:
    """Removes the version of `transformers` from what it wrote, so that a model hashes alike on every machine."""
    for name in ("config.json", "generation_config.json"):
        kept = {key: value for key, value in _read_json(folder / name).items() if key != "transformers_version"}
        write_json(folder / name, kept)


def weights_sha256(files: dict[str, FileStamp]) -> str:
    """The hash of the weights alone; see `Provenance.weights_sha256`."""
    weights = {name: stamp.sha256 for name, stamp in files.items() if name.endswith(".safetensors")}
    return next(iter(weights.values())) if len(weights) == 1 else sha256_of_json(weights)


def is_whole(folder: Path, request: str, *, deep: bool = False) -> bool:
    """Whether `folder` is a finished checkpoint that answers to `request`.

    Args:
        folder: Checkpoint folder.
        request: As in `Provenance.request`.
        deep: Compare hashes too, not just sizes.
    """
    provenance = read_provenance(folder)
    if provenance is None or provenance.request != request:
        return False
    for name, stamp in provenance.files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != stamp.bytes or (deep and sha256_of_file(path) != stamp.sha256):
            return False
    return True


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelSourceError(f"{path.parent} has no {path.name}; give a Hugging Face checkpoint.") from error
    except (OSError, ValueError) as error:
        raise ModelSourceError(f"{path} is not readable JSON ({error}); copy it again.") from error
    if not isinstance(value, dict):
        raise ModelSourceError(f"{path} is not a JSON object; copy it again.")
    return value

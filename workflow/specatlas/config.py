"""The run configuration (`workflow/config/*.yaml`); `workflow/schemas/config.schema.json` is drawn from it."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specatlas.errors import ConfigError

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class ConfigModel(BaseModel):
    """Base: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PromptSelection(ConfigModel):
    """Which prompts are measured.

    Attributes:
        name: Name of this selection; part of every record's path.
        source: Prompt set: `atlas`, `spec_bench:FILE`, `mt_bench:FILE`, `speed_bench:CONFIG`.
        split: `test` for anything that is published.
        categories: Subset of the set's categories; null for all.
        per_category: First n prompts of every category; null for all.
    """

    name: Name
    source: str = "atlas"
    split: Literal["tune", "test"] | None = "test"
    categories: tuple[str, ...] | None = None
    per_category: int | None = Field(default=None, ge=1)


class Settings(ConfigModel):
    """How answers are generated and how often.

    Attributes:
        dtype: Precision of the timed run.
        temperature: 0 for greedy.
        top_k, top_p: Truncation applied to target and drafter alike; null for none.
        max_new_tokens: Limit of one answer, in tokens.
        cycles: How often every prompt is decoded by each arm.
        batch: Sequences decoded at once.
        seed: Base seed; the seed of a generation is derived from (seed, prompt, cycle).
        gate_prompts: Prompts of the fp32 exactness gate.
        gate_tokens: Tokens a prompt there.
        hyperparameters: Overrides by method.
    """

    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    temperature: float = Field(default=0.0, ge=0)
    top_k: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_new_tokens: int = Field(default=128, ge=1)
    cycles: int = Field(default=2, ge=1)
    batch: int = Field(default=1, ge=1)
    seed: int = Field(default=0, ge=0)
    gate_prompts: int = Field(default=6, ge=0)
    gate_tokens: int = Field(default=48, ge=1)
    hyperparameters: dict[str, dict[str, bool | int | float | str]] = {}


class Corpus(ConfigModel):
    """The training corpus: the target's own answers to generated instructions.

    Attributes:
        name: Part of its file name.
        instructions: Number of instructions.
        max_new_tokens: Limit of one answer, in tokens.
        sampled_share: Share of the answers that are sampled at `temperature`; the rest are greedy.
        batch: Sequences generated at once.
        seed: Seed of instructions and sampling.
    """

    name: Name
    instructions: int = Field(ge=1)
    max_new_tokens: int = Field(default=160, ge=1)
    sampled_share: float = Field(default=0.5, ge=0, le=1)
    temperature: float = Field(default=0.8, gt=0)
    batch: int = Field(default=64, ge=1)
    seed: int = Field(default=0, ge=0)


class Budget(ConfigModel):
    """What one artifact may cost to make.

    Attributes:
        name: Part of the artifact's path.
        tokens: Corpus tokens that gradient training reads, epochs included.
        trials: Evaluations that a search makes.
        seed: Seed of initialisation, order and search.
    """

    name: Name
    tokens: int = Field(ge=1)
    trials: int = Field(default=40, ge=1)
    seed: int = Field(default=0, ge=0)


class Config(ConfigModel):
    """One run of the DAG.

    Attributes:
        target: Id in `data/models.yaml`.
        machine: Name of the machine in record paths; `auto` derives it from CPU or GPU and core count.
        device: `auto` uses a GPU where there is one.
        methods: Slugs to measure, or `all` for every runnable method.
        settings: Named settings; one board each.
        drafters: Public drafter checkpoint by method (id in `data/models.yaml`); its artifact is converted from that
            checkpoint instead of trained here.
    """

    name: Name
    target: str
    machine: Name = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    prompts: PromptSelection
    settings: dict[Name, Settings] = Field(min_length=1)
    methods: Literal["all"] | tuple[str, ...] = "all"
    corpus: Corpus
    budget: Budget
    drafters: dict[str, str] = {}


def read_config(path: Path) -> Config:
    """Reads a configuration file.

    Raises:
        ConfigError: Missing file, not YAML, unknown key, value out of bounds; says which key.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such configuration; give the path of a file like workflow/config/default.yaml.")
    try:
        return parse_config(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML ({str(error).splitlines()[0]}); fix the syntax.") from error


def config_from_argument(text: str) -> Config:
    """Reads a configuration given on a command line: the path of a file, or JSON (as the DAG's jobs pass it).

    Raises:
        ConfigError: Missing file, malformed text, unknown key, value out of bounds.
    """
    if not text.lstrip().startswith("{"):
        return read_config(Path(text))
    try:
        return parse_config(json.loads(text), "--config")
    except json.JSONDecodeError as error:
        raise ConfigError(f"--config: not valid JSON ({error}); give a file or a JSON object.") from error


def parse_config(data: Any, source: str) -> Config:
    """Validates configuration data that came from `source`.

    Raises:
        ConfigError: Unknown key or value out of bounds; says which key.
    """
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "file"
        raise ConfigError(f"{source}: {key}: {first['msg']}; see workflow/schemas/config.schema.json.") from error

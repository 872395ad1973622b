"""What a method is given when it is built, and the artifact that training or search leaves for it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.transformer import Transformer
from specatlas.errors import MissingArtifact
from specatlas.files import atomic_path

ARTIFACT_FILE = "artifact.safetensors"
REPORT_FILE = "training.json"
_METADATA_KEY = "specatlas"


@dataclass(frozen=True)
class Artifact:
    """What training or search made.

    Attributes:
        tensors: Weights by name.
        metadata: JSON values: shapes, choices, calibration tables, what it was made from.
    """

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]

    def save(self, folder: Path) -> Path:
        """Writes `artifact.safetensors` atomically and returns its path."""
        path = folder / ARTIFACT_FILE
        tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in self.tensors.items()}
        # safetensors refuses an empty file; a search leaves no weights.
        tensors = tensors or {"empty": torch.zeros(1)}
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata={_METADATA_KEY: json.dumps(self.metadata)})
        return path

    @classmethod
    def load(cls, folder: Path, slug: str) -> "Artifact":
        """Reads the artifact that method `slug` left in `folder`.

        Raises:
            MissingArtifact: There is none, or it is damaged; says how to make it.
        """
        path = folder / ARTIFACT_FILE
        if not path.is_file():
            raise MissingArtifact(f"{path} does not exist; make it with `specatlas train {slug}`.")
        try:
            with safe_open(path, framework="pt") as handle:
                metadata = json.loads((handle.metadata() or {}).get(_METADATA_KEY, "{}"))
                return cls({name: handle.get_tensor(name) for name in handle.keys()}, metadata)  # noqa: SIM118
        except (SafetensorError, json.JSONDecodeError) as error:
            raise MissingArtifact(f"{path} is damaged ({error}); remove it and train {slug} again.") from error


@dataclass(frozen=True)
class Setup:
    """Everything a method may build itself from.

    Attributes:
        target: The target model.
        settings: Sampling settings of the run.
        hyperparameters: The card's, effective and checked.
        artifacts: By the slug of the method that makes them; those that the card needs.
        answers: Plain decoding's own answers by prompt; given only where the card asks for them (controls).
        seed: Of whatever the method draws when it is built.
    """

    target: Transformer
    settings: SamplingSettings
    hyperparameters: Mapping[str, Any]
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    answers: Mapping[tuple[int, ...], list[int]] = field(default_factory=dict)
    seed: int = 0

"""What a method's `make(job)` is given to train or search with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from specatlas.config import Budget
from specatlas.drafting.setup import Artifact
from specatlas.engine.loading import load_transformer
from specatlas.engine.transformer import Transformer


@dataclass(frozen=True)
class Made:
    """What `make(job)` returns.

    Attributes:
        artifact: What the method loads when it runs.
        report: JSON values for `training.json`: learning curve, held-out figures, trials, durations.
    """

    artifact: Artifact
    report: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One training or search.

    Attributes:
        target_folder: The target's checkpoint.
        corpus: The training corpus (`training.corpus`), or None for searches.
        tune_prompts: Prompts of the tune split as token ids, template applied; never the test split.
        eos_ids: The target's EOS ids.
        budget: What the artifact may cost, and the seed.
        device: Where to train.
        work: Folder for checkpoints; a killed job goes on from there. Removed when the job is done.
    """

    target_folder: Path
    corpus: Path | None
    tune_prompts: Sequence[Sequence[int]]
    eos_ids: frozenset[int]
    budget: Budget
    device: torch.device
    work: Path
    _loaded: dict[torch.dtype, Transformer] = field(default_factory=dict, repr=False)

    def target(self, dtype: torch.dtype = torch.bfloat16) -> Transformer:
        """The target, packed for inference; loaded once a precision."""
        if dtype not in self._loaded:
            self._loaded[dtype] = load_transformer(self.target_folder, dtype=dtype, device=self.device)
        return self._loaded[dtype]


Make = Callable[[Job], Made]

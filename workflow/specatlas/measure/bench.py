"""A loaded target with both arms on it: what the timed run, the fp32 gate and single answers have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from specatlas.catalog.discovery import Catalog, Method
from specatlas.config import Settings
from specatlas.drafting.methods import prepare
from specatlas.drafting.setup import Artifact
from specatlas.engine.drafter import Drafter
from specatlas.engine.loading import load_transformer
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.stopping import StopConditions
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import VerificationRule
from specatlas.measure.arms import Arm, plain_arm
from specatlas.measure.questions import Question, groups

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
HyperParameters = dict[str, int | float | bool | str]


@dataclass(frozen=True)
class Workload:
    """What a unit measures, before anything is loaded.

    Attributes:
        model_folder: The target's checkpoint.
        eos_ids: Ids that end an answer.
        artifacts: By the slug of the method that makes them.
        hyperparameters: Overrides of the method's defaults.
    """

    catalog: Catalog
    method: Method
    settings: Settings
    model_folder: Path
    device: torch.device
    eos_ids: frozenset[int]
    artifacts: Mapping[str, Artifact]
    hyperparameters: HyperParameters

    @property
    def sampling(self) -> SamplingSettings:
        """How tokens are chosen."""
        return SamplingSettings(self.settings.temperature, self.settings.top_k, self.settings.top_p)

    @property
    def stop(self) -> StopConditions:
        """When answers end."""
        return StopConditions(self.settings.max_new_tokens, self.eos_ids)

    def load_target(self, dtype: torch.dtype) -> Transformer:
        """The target in one precision.

        Raises:
            ModelSourceError: The checkpoint is missing or damaged.
            UnsupportedArchitecture: The engine does not implement its family.
        """
        return load_transformer(self.model_folder, dtype=dtype, device=self.device)


@dataclass(frozen=True)
class Bench:
    """Both arms on one loaded target."""

    target: Transformer
    method: Arm
    baseline: Arm

    @property
    def arms(self) -> tuple[Arm, Arm]:
        """Method first."""
        return self.method, self.baseline

    @property
    def drafter(self) -> Drafter:
        """The method's drafter."""
        return self.method.decoder.drafter


def baseline_arm(workload: Workload, target: Transformer, sampling: SamplingSettings, stop: StopConditions) -> Arm:
    """Plain decoding of the workload's target."""
    return plain_arm(target, sampling, stop, base_seed=workload.settings.seed)


def build_bench(
    workload: Workload,
    baseline: Arm,
    questions: Sequence[Question],
    *,
    time_phases: bool | None = None,
    check: bool = False,
) -> Bench:
    """Builds the method beside plain decoding, with the same target, settings and stop conditions.

    `time_phases` and `check` are the method's arm's. A control that replays plain decoding's answers gets them here,
    decoded outside the clock.

    Raises:
        Refusal: The method cannot work with this target, settings or artifact.
        CatalogError: The method's code is broken.
    """
    decoder, card = baseline.decoder, workload.method.card
    answers: dict[tuple[int, ...], list[int]] = {}
    if card.needs.answers:
        for group in groups(questions, workload.settings.batch):
            answers.update(zip((question.tokens for question in group), baseline.answer(group), strict=True))

    def prepared() -> tuple[Drafter, VerificationRule, dict[str, int | float | bool | str]]:
        return prepare(
            workload.method,
            decoder.target,
            decoder.settings,
            artifacts=workload.artifacts,
            overrides=workload.hyperparameters,
            answers=answers,
            seed=workload.settings.seed,
        )

    drafter, rule, _ = prepared()
    method = Arm(
        "method",
        decoder.target,
        drafter,
        rule,
        decoder.settings,
        baseline.stop,
        base_seed=workload.settings.seed,
        rebuild=(lambda: prepared()[0]) if card.carry_over else None,
        time_phases=time_phases,
        check=check,
    )
    return Bench(decoder.target, method, baseline)

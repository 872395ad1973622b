"""One unit: (machine, target, prompt set, settings, method), one process, one record.

A method that is refused, fails or runs out of memory is a record with a reason and no numbers, since that is a finding
about the method. A missing model, a held lock or a full disk is none, and is raised.
"""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import specatlas
from specatlas.catalog.card import Losslessness
from specatlas.catalog.discovery import load_catalog
from specatlas.config import Config
from specatlas.drafting.methods import load_artifacts
from specatlas.drafting.setup import ARTIFACT_FILE
from specatlas.errors import ConfigError, ModelSourceError, Refusal
from specatlas.measure.bench import HyperParameters, Workload
from specatlas.measure.clock import choose_device
from specatlas.measure.environment import git_state, load_average, machine_name, read_environment
from specatlas.measure.exactness import Gate, claim_of, fp32_gate, greedy_exactness, sampling_exactness
from specatlas.measure.failures import INFRASTRUCTURE, check_artifacts, code_of, reason_of, status_of
from specatlas.measure.hashes import artifact_hashes, harness_sha256, model_sha256
from specatlas.measure.load import LoadMeter
from specatlas.measure.lock import device_identity, machine_lock
from specatlas.measure.questions import ChatEncoder, spread
from specatlas.measure.seeds import order_seed
from specatlas.measure.timed import Timed, timed_run
from specatlas.project import Project
from specatlas.prompts.registry import load_prompt_set, prompt_set_sha256
from specatlas.prompts.schema import Prompt
from specatlas.records.schema import Environment, Exactness, Provenance, Record, UnitKey, UnitStatus
from specatlas.records.store import write_record


@dataclass(frozen=True)
class Unit:
    """One unit with everything at hand but its artifacts, which only the method may miss."""

    project: Project
    config: Config
    key: UnitKey
    workload: Workload
    prompts: tuple[Prompt, ...]
    encoder: ChatEncoder
    hyperparameters: HyperParameters

    def artifact_folder(self, slug: str) -> Path:
        """Where the artifact of a method lies."""
        return self.project.artifact(self.key.target, self.config.budget.name, slug)


def measure_unit(project: Project, config: Config, settings_name: str, slug: str, machine: str | None = None) -> Path:
    """Measures one unit and writes its record below `results/records`.

    Args:
        project: The checkout.
        config: The run.
        settings_name: Which of its settings.
        slug: The method.
        machine: Name of the machine; by default the configuration's or a derived one.

    Returns:
        The record's path.

    Raises:
        ModelSourceError: The target has not been fetched.
        PromptError: The prompts cannot be read.
        ConfigError: No such settings, or no such device.
        CatalogError: A hyper-parameter of the settings is out of bounds.
    """
    unit = open_unit(project, config, settings_name, slug, machine or machine_name(config))
    with machine_lock(lock_name(unit.workload.device)):
        record = _measured(unit)
    return write_record(project.results / "records", record)


def open_unit(project: Project, config: Config, settings_name: str, slug: str, machine: str) -> Unit:
    """Reads what the unit needs; raises as `measure_unit`."""
    if settings_name not in config.settings:
        raise ConfigError(f"No settings are called `{settings_name}`; known: {', '.join(config.settings)}.")
    settings, catalog = config.settings[settings_name], load_catalog(project.methods)
    method, overrides = catalog[slug], settings.hyperparameters.get(slug, {})
    folder, chosen = model_folder(project, config.target), config.prompts
    prompts = load_prompt_set(
        chosen.source,
        project.root,
        split=chosen.split,
        categories=chosen.categories,
        per_category=chosen.per_category,
    )
    if not prompts:
        raise ConfigError(f"prompts: the selection `{chosen.name}` is empty; choose other categories or another split.")
    encoder = load_encoder(folder)
    device = choose_device(config.device)
    return Unit(
        project=project,
        config=config,
        key=UnitKey(machine=machine, target=config.target, prompt_set=chosen.name, settings=settings_name, method=slug),
        workload=Workload(catalog, method, settings, folder, device, encoder.eos_ids, {}, overrides),
        prompts=tuple(prompts),
        encoder=encoder,
        hyperparameters=method.card.settings(overrides),
    )


def model_folder(project: Project, target: str) -> Path:
    """Folder of a fetched checkpoint.

    Raises:
        ModelSourceError: It is not there; says how to fetch it.
    """
    folder = project.models / target
    if not (folder / "config.json").is_file():
        raise ModelSourceError(f"{folder} holds no model; fetch it with `specatlas fetch {target}`.")
    return folder


def load_encoder(folder: Path) -> ChatEncoder:
    """The tokenizer of a checkpoint folder."""
    from specatlas.models.tokenizer import Tokenizer

    encoder: ChatEncoder = Tokenizer(folder)
    return encoder


def lock_name(device: torch.device) -> str:
    """Name of the lock of a device."""
    uuid = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else None
    return device_identity(device.type, uuid)


def _measured(unit: Unit) -> Record:
    # Before the run: sources edited while it goes on are not what was measured.
    common = _common(unit)
    load_before, meter = load_average(), LoadMeter()
    try:
        timed, exactness = _attempt(unit)
    except INFRASTRUCTURE:
        raise
    except Exception as error:  # whatever a method raises is a finding about it
        if not isinstance(error, Refusal):
            traceback.print_exc()
        sys.stderr.write(f"{unit.key.method}: {status_of(error)}: {reason_of(error)}\n")
        environment = _environment(unit, load_before, meter.read() or 0.0)
        return Record(
            status=status_of(error),
            reason=reason_of(error),
            error_code=code_of(error),
            environment=environment,
            **common,
        )
    return Record(
        status=UnitStatus.OK,
        reason=None,
        environment=_environment(unit, load_before, timed.foreign_load),
        samples=timed.samples,
        warmups=timed.warmups,
        exactness=exactness,
        quality=timed.quality,
        latency=timed.latency,
        draft_pass_ns=timed.draft_pass_ns,
        memory=timed.memory,
        **common,
    )


def _attempt(unit: Unit) -> tuple[Timed, Exactness]:
    """All that the method may make fail."""
    artifacts = load_artifacts(unit.workload.catalog, unit.workload.method, unit.artifact_folder)
    check_artifacts(artifacts)
    workload = replace(unit.workload, artifacts=artifacts)
    timed = timed_run(workload, unit.prompts, unit.encoder)
    return timed, judge(workload, timed)


def judge(workload: Workload, timed: Timed) -> Exactness:
    """The gate; by now the timed run's target is freed."""
    if not workload.sampling.greedy:
        return sampling_exactness(workload)
    claim = claim_of(workload)
    gate = Gate()
    if claim is not Losslessness.LOSSY:
        gate = fp32_gate(workload, spread(timed.questions, workload.settings.gate_prompts))
    generations = sum(sample.arm == "method" for sample in timed.samples)
    return greedy_exactness(claim, gate, generations, timed.differences, timed.notes)


def _environment(unit: Unit, load_before: float, foreign_load: float) -> Environment:
    return read_environment(
        unit.key.machine,
        str(unit.workload.device),
        load_before=load_before,
        load_after=load_average(),
        foreign_load=foreign_load,
    )


def _common(unit: Unit) -> dict[str, Any]:
    """The parts of a record that do not depend on how the unit ended."""
    settings, card = unit.workload.settings, unit.workload.method.card
    rules, greedy = card.verification, unit.workload.sampling.greedy
    return {
        "unit": unit.key,
        "settings": effective_settings(unit),
        "hyperparameters": unit.hyperparameters,
        "verification_rule": (rules.greedy if greedy else rules.sampling) if rules else None,
        "provenance": _provenance(unit, settings.seed),
        "n_prompts_in_set": len(unit.prompts),
    }


def effective_settings(unit: Unit) -> dict[str, Any]:
    """What was decoded and how, as it took effect (known faults K09, K10)."""
    chosen = unit.workload.settings.model_dump(mode="json", exclude={"hyperparameters"})
    return chosen | {
        "eos_ids": sorted(unit.workload.eos_ids),
        "template_sha256": unit.encoder.template_sha256,
        "prompts": unit.config.prompts.model_dump(mode="json", exclude={"name"}),
        "carry_over": False,
    }


def _provenance(unit: Unit, seed: int) -> Provenance:
    commit, dirty = git_state(unit.project.root)
    needed: Sequence[str] = unit.workload.method.card.needs.artifacts
    return Provenance(
        created=datetime.now(UTC),
        specatlas=specatlas.__version__,
        commit=commit,
        dirty=dirty,
        method_sha256=unit.workload.method.source_sha256,
        harness_sha256=harness_sha256(),
        model_sha256=model_sha256(unit.workload.model_folder),
        prompts_sha256=prompt_set_sha256(unit.prompts),
        artifacts_sha256=artifact_hashes({slug: unit.artifact_folder(slug) / ARTIFACT_FILE for slug in needed}),
        order_seed=order_seed(seed),
    )

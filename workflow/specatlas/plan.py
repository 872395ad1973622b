"""What one run of the DAG makes and from what: paths, inputs and frozen parameters. Imports no torch.

The rules and `specatlas status` both read this plan. Every parameter is a sorted JSON string that holds just what its
job depends on, so that a change elsewhere in the configuration, or in the order of its keys, repeats no work.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from specatlas.catalog.card import Status
from specatlas.catalog.discovery import Catalog, Method, load_catalog
from specatlas.config import Config
from specatlas.errors import ConfigError
from specatlas.files import sha256_of_files
from specatlas.models.registry import load_model_registry
from specatlas.project import Project
from specatlas.records.schema import UnitKey

ANY_CORPUS = {"name": "none", "instructions": 1}
ANY_BUDGET = {"name": "none", "tokens": 1}
ANY_PROMPTS = {"name": "none"}
ANY_SETTINGS: dict[str, Any] = {"none": {}}
GENERATED_SITE_PARTS = ("site/public/", "site/.cache/", "site/docs/generated/")


def frozen(value: Any) -> str:
    """JSON in one canonical order: equal values give equal strings."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def package_sha256(*parts: str) -> str:
    """Hash of the Python sources of these parts (modules or packages) of SpecAtlas."""
    root = Path(__file__).parent
    files = [
        path for part in parts for path in ([root / part] if part.endswith(".py") else (root / part).rglob("*.py"))
    ]
    return sha256_of_files(files, root)


@dataclass(frozen=True)
class Plan:
    """One run: a project, a configuration and the name of the machine.

    Paths are relative when the project's are, as Snakemake wants them.
    """

    project: Project
    config: Config
    machine: str

    @cached_property
    def catalog(self) -> Catalog:
        """All methods, the ones that do not run here included."""
        return load_catalog(self.project.methods)

    @cached_property
    def methods(self) -> list[Method]:
        """The methods that this run measures, in catalog order.

        Raises:
            ConfigError: The configuration names a method that cannot run here.
            UnknownMethod: It names one that does not exist.
        """
        chosen = self.config.methods
        if chosen == "all":
            return self.catalog.runnable()
        for method in map(self.catalog.__getitem__, chosen):
            if method.card.status is not Status.RUNNABLE:
                raise ConfigError(f"methods: {method.card.slug} is {method.card.status}: {method.card.reason}")
        return [method for slug, method in self.catalog.methods.items() if slug in chosen]

    @property
    def slugs(self) -> list[str]:
        """The slugs of `methods`."""
        return [method.card.slug for method in self.methods]

    # --- files ---------------------------------------------------------------------------------------------------

    def model(self, model_id: str) -> str:
        """The provenance of a fetched model: written last, and the same bytes for the same weights."""
        return str(self.project.models / model_id / "provenance.json")

    @property
    def corpus(self) -> str:
        """The training corpus."""
        return str(self.project.corpus(self.config.target, self.config.corpus.name))

    def artifact(self, slug: str) -> list[str]:
        """The files of a trained or searched artifact."""
        folder = self.project.artifact(self.config.target, self.config.budget.name, slug)
        return [str(folder / "artifact.safetensors"), str(folder / "training.json")]

    def record(self, settings: str, slug: str) -> str:
        """The record of one unit."""
        unit = UnitKey(
            machine=self.machine,
            target=self.config.target,
            prompt_set=self.config.prompts.name,
            settings=settings,
            method=slug,
        )
        return str(self.project.results / "records" / unit.path)

    @property
    def records(self) -> list[str]:
        """Every record of this run."""
        return [self.record(settings, slug) for settings in self.config.settings for slug in self.slugs]

    # --- inputs --------------------------------------------------------------------------------------------------

    def artifact_inputs(self, slug: str) -> list[str]:
        """What an artifact is made from: the target, the method's code, and a corpus, tune prompts or a checkpoint.

        The card's prose is not among them: `training_parameters` holds the part of the card that training reads.
        """
        card = self.catalog[slug].card
        inputs = [self.model(self.config.target), *self.code(slug)]
        if slug in self.config.drafters:
            return [*inputs, self.model(self.config.drafters[slug])]
        if card.training is not None and card.training.kind == "search":
            return [*inputs, *self.prompt_files]
        return [*inputs, self.corpus]

    def record_inputs(self, slug: str) -> dict[str, list[str]]:
        """What a record is measured from."""
        method = self.catalog[slug]
        borrowed = [other for other in method.card.needs.artifacts if other != slug]
        return {
            "model": [self.model(self.config.target)],
            "prompts": self.prompt_files,
            "sources": [*map(str, method.sources), *(path for other in borrowed for path in self.code(other))],
            "artifacts": [path for other in method.card.needs.artifacts for path in self.artifact(other)],
        }

    def code(self, slug: str) -> list[str]:
        """The Python files of a method."""
        return [str(path) for path in self.catalog[slug].sources if path.suffix == ".py"]

    @cached_property
    def prompt_files(self) -> list[str]:
        """The files of the prompt set; empty where a loader fetches it."""
        name, _, file = self.config.prompts.source.partition(":")
        if name == "atlas":
            folder = self.project.data / "prompts"
            return sorted(map(str, [*folder.glob("*.jsonl"), *folder.glob("*.yaml")]))
        return [file] if name in {"spec_bench", "mt_bench"} else []

    @property
    def published(self) -> list[str]:
        """The published records, which the board shows beside this run's."""
        return sorted(map(str, self.project.published.rglob("*.json")))

    @property
    def cards(self) -> list[str]:
        """Every card and the taxonomy: what pages say of methods."""
        cards = (str(method.folder / "method.yaml") for method in self.catalog.methods.values())
        return [str(self.project.methods / "taxonomy.yaml"), *cards]

    @property
    def sources(self) -> list[str]:
        """The taxonomy and every method's files: what tells a board which of its records are stale."""
        files = (str(path) for method in self.catalog.methods.values() for path in method.sources)
        return [str(self.project.methods / "taxonomy.yaml"), *files]

    @property
    def site_sources(self) -> list[str]:
        """Templates, assets and hand-written pages."""
        folder = self.project.root / "site"
        files = (path for path in folder.rglob("*") if path.is_file())
        names = (str(path) for path in files if "__pycache__" not in path.parts)
        return sorted(name for name in names if not any(part in name for part in GENERATED_SITE_PARTS))

    # --- parameters ----------------------------------------------------------------------------------------------

    def model_parameters(self, model_id: str) -> str:
        """The part of a model's entry that decides what is fetched.

        Raises:
            ModelSourceError: `data/models.yaml` has no such model.
        """
        entry = load_model_registry(self.project).entry(model_id)
        return frozen(entry.model_dump(mode="json", exclude={"description", "template", "role"}))

    def corpus_config(self) -> str:
        """The configuration as far as the corpus depends on it."""
        return self._slice(corpus=self.config.corpus.model_dump())

    def artifact_config(self, slug: str) -> str:
        """The configuration as far as one artifact depends on it."""
        card = self.catalog[slug].card
        drafter = self.config.drafters.get(slug)
        if drafter is not None:
            return self._slice(budget=ANY_BUDGET | {"name": self.config.budget.name}, drafters={slug: drafter})
        parts: dict[str, Any] = {"budget": self.config.budget.model_dump()}
        if card.training is not None and card.training.kind == "search":
            parts["prompts"] = ANY_PROMPTS | self.config.prompts.model_dump(include={"source"})
        else:
            parts["corpus"] = self.config.corpus.model_dump()
        return self._slice(**parts)

    def training_parameters(self, slug: str) -> str:
        """The part of the card that training reads."""
        card = self.catalog[slug].card
        return frozen(card.model_dump(mode="json", include={"training", "hyperparameters", "needs"}))

    def record_config(self, settings: str, slug: str) -> str:
        """The configuration as far as one record depends on it: no other settings, no other method's overrides."""
        chosen = self.config.settings[settings].model_dump()
        chosen["hyperparameters"] = {name: value for name, value in chosen["hyperparameters"].items() if name == slug}
        parts: dict[str, Any] = {"settings": {settings: chosen}, "prompts": self.config.prompts.model_dump()}
        if self.catalog[slug].card.needs.artifacts:
            parts["budget"] = self.config.budget.model_dump()
        return self._slice(methods=[slug], machine=self.machine, **parts)

    def _slice(self, **parts: Any) -> str:
        neutral = {"corpus": ANY_CORPUS, "budget": ANY_BUDGET, "prompts": ANY_PROMPTS, "settings": ANY_SETTINGS}
        common = {"name": "job", "target": self.config.target, "device": self.config.device}
        return frozen(common | neutral | parts)


def check_plan(plan: Plan) -> None:
    """Checks everything that a run names against cards and model list, before anything is made.

    Raises:
        ConfigError: A drafter is given for a method that cannot use one.
        CatalogError: Unknown method or hyper-parameter, value out of bounds.
        ModelSourceError: Unknown model.
    """
    for settings in plan.config.settings.values():
        for slug, values in settings.hyperparameters.items():
            plan.catalog[slug].card.settings(values)
    for slug in plan.config.drafters:
        train = plan.catalog[slug].folder / "train.py"
        if not train.is_file() or "\ndef convert(" not in train.read_text(encoding="utf-8"):
            raise ConfigError(f"drafters.{slug}: {train} has no convert(...) that could take a public checkpoint.")
    for model_id in models_of(plan.config):
        plan.model_parameters(model_id)
    _ = plan.methods


def models_of(config: Config) -> Iterable[str]:
    """The ids of every model that a run reads: the target and the public drafters."""
    return [config.target, *sorted(set(config.drafters.values()))]

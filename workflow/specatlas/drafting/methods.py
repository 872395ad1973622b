"""From a method's folder to a drafter: imports `method.py` as part of a package of its own and calls `build`."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from specatlas.catalog.card import Card, Losslessness
from specatlas.catalog.discovery import Catalog, Method
from specatlas.drafting.setup import Artifact, Setup
from specatlas.engine.drafter import Drafter
from specatlas.engine.sampling import SamplingSettings
from specatlas.engine.transformer import Transformer
from specatlas.engine.verification import VerificationRule, make_rule
from specatlas.errors import CatalogError, UnsupportedSampling

PACKAGE = "specatlas_methods"


def import_part(method: Method, part: str) -> ModuleType:
    """Imports `<part>.py` of a method's folder, which may use relative imports of its neighbours.

    Raises:
        CatalogError: The file is missing or cannot be imported.
    """
    path = method.folder / f"{part}.py"
    if not path.is_file():
        raise CatalogError(f"{path} does not exist; a method of this kind needs it, see methods/_template.")
    package = f"{PACKAGE}.{method.card.slug}"
    _ensure_package(PACKAGE, None)
    known = sys.modules.get(package)
    if known is None or list(known.__path__) != [str(method.folder)]:
        _forget(package)
        _ensure_package(package, method.folder)
    try:
        return importlib.import_module(f"{package}.{part}")
    except ImportError as error:
        raise CatalogError(f"{path} cannot be imported: {error}.") from error


def build_drafter(method: Method, setup: Setup) -> Drafter:
    """Calls the method's `build(setup)`.

    Raises:
        CatalogError: `method.py` has no `build`.
        Refusal: The method cannot work with this target, settings or artifact.
    """
    build = cast("Callable[[Setup], Drafter] | None", getattr(import_part(method, "method"), "build", None))
    if build is None:
        raise CatalogError(f"{method.folder}/method.py defines no build(setup); see methods/_template.")
    return build(setup)


def rule_for(card: Card, settings: SamplingSettings, hyperparameters: Mapping[str, Any]) -> VerificationRule:
    """The verification rule that the card names for these settings.

    Raises:
        UnsupportedSampling: The method has none at temperatures above 0.
    """
    assert card.verification is not None
    if settings.greedy:
        return make_rule(card.verification.greedy, hyperparameters)
    if card.verification.sampling is None or card.lossless.sampling is Losslessness.UNSUPPORTED:
        raise UnsupportedSampling(f"Method {card.slug} runs at temperature 0 only; set temperature to 0.")
    return make_rule(card.verification.sampling, hyperparameters)


def load_artifacts(catalog: Catalog, method: Method, folder_of: Callable[[str], Path]) -> dict[str, Artifact]:
    """The artifacts that the card needs, by the slug of the method that makes them.

    Raises:
        MissingArtifact: One does not exist yet.
    """
    return {slug: Artifact.load(folder_of(catalog[slug].card.slug), slug) for slug in method.card.needs.artifacts}


def untrained_artifacts(catalog: Catalog, method: Method, target: Transformer, seed: int) -> dict[str, Artifact]:
    """Artifacts with random weights for a tiny target: what conformance runs on, since losslessness needs no training.

    Raises:
        CatalogError: A method that trains has no `untrained(target, seed)` in its `train.py`.
    """
    made = {}
    for slug in method.card.needs.artifacts:
        make = getattr(import_part(catalog[slug], "train"), "untrained", None)
        if make is None:
            raise CatalogError(
                f"{catalog[slug].folder}/train.py defines no untrained(target, seed); see methods/_template."
            )
        made[slug] = make(target, seed)
    return made


def prepare(
    method: Method,
    target: Transformer,
    settings: SamplingSettings,
    *,
    artifacts: Mapping[str, Artifact],
    overrides: Mapping[str, int | float | bool | str] | None = None,
    answers: Mapping[tuple[int, ...], list[int]] | None = None,
    seed: int = 0,
) -> tuple[Drafter, VerificationRule, dict[str, int | float | bool | str]]:
    """Builds drafter and rule; returns them with the effective hyper-parameters.

    Raises:
        Refusal: The combination cannot run.
        CatalogError: The card or the method's code is broken.
    """
    hyperparameters = method.card.settings(dict(overrides or {}))
    rule = rule_for(method.card, settings, hyperparameters)
    setup = Setup(target, settings, hyperparameters, artifacts, answers or {}, seed)
    return build_drafter(method, setup), rule, hyperparameters


def _ensure_package(name: str, folder: Path | None) -> None:
    if name not in sys.modules:
        module = ModuleType(name)
        module.__path__ = [] if folder is None else [str(folder)]
        sys.modules[name] = module


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]

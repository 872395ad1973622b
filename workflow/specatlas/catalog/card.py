"""The card of a method: pure data, validated, readable without torch."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specatlas.errors import CatalogError

SLUG = re.compile(r"[a-z][a-z0-9_]*")
Slug = Annotated[str, Field(pattern=rf"^{SLUG.pattern}$")]


class CardModel(BaseModel):
    """Base of the card's parts: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MethodClass(StrEnum):
    """The survey's two classes, and our controls."""

    DRAFT_CENTRIC = "draft_centric"
    MODEL_CENTRIC = "model_centric"
    CONTROL = "control"


class Status(StrEnum):
    """Whether the method runs here."""

    RUNNABLE = "runnable"
    MODELLED = "modelled"
    CATALOGUED = "catalogued"


class Losslessness(StrEnum):
    """What the output keeps of the target's: the same tokens, the same distribution, or neither."""

    EXACT = "exact"
    DISTRIBUTION = "distribution"
    LOSSY = "lossy"
    UNSUPPORTED = "unsupported"


class Paper(CardModel):
    """A paper that describes the method."""

    title: str
    arxiv: Annotated[str, Field(pattern=r"^\d{4}\.\d{4,5}$")] | None = None
    url: str | None = None
    year: int = Field(ge=1990, le=2100)
    venue: str | None = None


class Place(CardModel):
    """Where the method stands in the taxonomy.

    Attributes:
        survey: Path of the survey's own place (arXiv 2411.13157), e.g. `model_centric/dependent`; null where the survey
            has none.
        atlas: Path of our place; always given.
    """

    survey: str | None = None
    atlas: str


class Needs(CardModel):
    """What must be at hand before the method can run.

    Attributes:
        artifacts: Slugs of the methods whose trained or searched artifact this one loads (its own, if it trains).
        draft_model: Whether an independent draft language model is used.
        datastore: Whether an external text datastore is used.
        hidden_states: Whether hidden states of the target are read.
        layer_access: Whether parts of the target are run on their own.
        answers: Whether plain decoding's own answers are replayed; for controls only.
    """

    artifacts: tuple[Slug, ...] = ()
    draft_model: bool = False
    datastore: bool = False
    hidden_states: bool = False
    layer_access: bool = False
    answers: bool = False


class Training(CardModel):
    """How the method's artifact is made.

    Attributes:
        kind: `gradient` (weights learned on the corpus) or `search` (a choice made on the tune prompts).
        summary: What is trained or searched, on what, with which loss.
    """

    kind: Literal["gradient", "search"]
    summary: str


class Losslessnesses(CardModel):
    """What the method claims at temperature 0 and above."""

    greedy: Losslessness
    sampling: Losslessness


class Verification(CardModel):
    """Names of the verification rules (`specatlas.engine.verification`) used at temperature 0 and above."""

    greedy: str
    sampling: str | None = None


class HyperParameter(CardModel):
    """One declared hyper-parameter.

    Attributes:
        default: Value used when a run says nothing else.
        minimum, maximum: Inclusive bounds of a number; null where unbounded.
        choices: The legal values of a choice.
        unit: What the number counts, e.g. `tokens`.
        description: What it does.
        smallest, largest: Extreme legal values that the conformance suite runs, where bounds are too wide to run.
    """

    default: int | float | bool | str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    unit: str
    description: str
    smallest: int | float | None = None
    largest: int | float | None = None

    def check(self, name: str, value: int | float | bool | str) -> int | float | bool | str:
        """Returns `value` in the declared type.

        Raises:
            CatalogError: Wrong type, out of bounds or not a choice.
        """
        if isinstance(self.default, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not type(self.default):
            raise CatalogError(f"Hyper-parameter {name} must be a {type(self.default).__name__}, not {value!r}.")
        if self.choices is not None and value not in self.choices:
            raise CatalogError(f"Hyper-parameter {name} must be one of {', '.join(self.choices)}, not {value!r}.")
        if isinstance(value, int | float) and not isinstance(value, bool):
            low = self.minimum is not None and value < self.minimum
            high = self.maximum is not None and value > self.maximum
            if low or high:
                raise CatalogError(f"Hyper-parameter {name} must lie in [{self.minimum}, {self.maximum}], not {value}.")
        return value


class Reported(CardModel):
    """A figure that a paper reports; shown beside ours, never ranked with them."""

    metric: str
    value: str
    target: str
    hardware: str
    source: str


class Card(CardModel):
    """Everything that is known of a method before it runs. File: `methods/<class>/<slug>/method.yaml`.

    Attributes:
        draft_shape: Form of the draft.
        carry_over: Whether the method keeps state from one prompt to the next (measured cold by default).
        batch: Whether the drafter works on several sequences at once.
        differs_from_paper: How our version differs from what the paper describes.
        reason: Why a method that is not `runnable` is not.
    """

    slug: Slug
    name: str
    summary: str
    method_class: MethodClass = Field(alias="class")
    place: Place
    papers: tuple[Paper, ...] = ()
    official_code: str | None = None
    needs: Needs = Needs()
    training: Training | None = None
    draft_shape: Literal["chain", "tree", "block", "none"]
    lossless: Losslessnesses
    verification: Verification | None = None
    hyperparameters: dict[str, HyperParameter] = {}
    reported: tuple[Reported, ...] = ()
    carry_over: bool = False
    batch: bool = True
    differs_from_paper: tuple[str, ...] = ()
    status: Status
    reason: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Card":
        if self.status is not Status.RUNNABLE and not self.reason:
            raise ValueError(f"reason: a method that is {self.status} must say why")
        if self.status is Status.RUNNABLE and self.verification is None:
            raise ValueError("verification: a runnable method names its verification rules")
        samples = self.lossless.sampling is not Losslessness.UNSUPPORTED
        if self.verification is not None and samples != (self.verification.sampling is not None):
            raise ValueError("verification.sampling: must be given exactly when lossless.sampling is not `unsupported`")
        if self.training is not None and self.slug not in self.needs.artifacts:
            raise ValueError(f"needs.artifacts: a method that trains lists its own artifact `{self.slug}`")
        for name, parameter in self.hyperparameters.items():
            parameter.check(name, parameter.default)
        return self

    def settings(
        self, overrides: dict[str, int | float | bool | str] | None = None
    ) -> dict[str, int | float | bool | str]:
        """The effective hyper-parameters: defaults, then checked overrides.

        Raises:
            CatalogError: Unknown name, wrong type, out of bounds.
        """
        values = {name: parameter.default for name, parameter in self.hyperparameters.items()}
        for name, value in (overrides or {}).items():
            if name not in self.hyperparameters:
                known = ", ".join(self.hyperparameters) or "none"
                raise CatalogError(f"Method {self.slug} has no hyper-parameter `{name}`; it has: {known}.")
            values[name] = self.hyperparameters[name].check(name, value)
        return values


def read_card(path: Path) -> Card:
    """Reads and validates one `method.yaml`.

    Raises:
        CatalogError: The file is not YAML, or breaks the card's schema; says which key.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Card.model_validate(data)
    except yaml.YAMLError as error:
        raise CatalogError(f"{path}: not valid YAML ({str(error).splitlines()[0]}); fix the syntax.") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "card"
        raise CatalogError(f"{path}: {key}: {first['msg']}; see CONTRIBUTING.md for the card's keys.") from error

"""One prompt, validated; and the error that every malformed prompt raises."""

import re
from collections.abc import Collection
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from specatlas.errors import SpecAtlasError

Split = Literal["tune", "test"]
SPLITS: tuple[Split, Split] = ("tune", "test")
ADVICE = 'write one JSON object per line with the keys "id", "category", "split" and "turns"'
Model = TypeVar("Model", bound=BaseModel)


class PromptError(SpecAtlasError):
    """A prompt file, prompt set or template file is malformed, altered or cannot be had."""


class Prompt(BaseModel):
    """What the user says to the model.

    Attributes:
        id: Unique in its set: the category, a hyphen and a number (or the source's own id).
        category: Kind of task; results are stratified by it.
        split: Whether hyper-parameters may be tuned on the prompt or figures come from it; never both.
        turns: The user's messages in order; the model answers each before the next one is sent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*-[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    category: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    split: Split
    turns: Annotated[tuple[str, ...], Field(min_length=1)]

    @field_validator("turns")
    @classmethod
    def _turns_say_something(cls, turns: tuple[str, ...]) -> tuple[str, ...]:
        if not all(turn.strip() for turn in turns):
            raise ValueError("a turn is empty")
        return turns

    @model_validator(mode="after")
    def _id_names_the_category(self) -> Self:
        if self.id.partition("-")[0] != self.category:
            raise ValueError(f'id "{self.id}" does not start with the category "{self.category}"')
        return self


def _explain(error: ErrorDetails) -> str:
    """Says in plain words what pydantic found."""
    key = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "missing":
            return f'the key "{key}" is missing'
        case "extra_forbidden":
            return f'the key "{key}" is unknown'
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            message = re.sub(r"^Input should", f'"{key}" should', error["msg"])
            return message if message != error["msg"] else f'"{key}" is wrong ({error["msg"]})'


def validated(model: type[Model], fields: object, where: str, advice: str) -> Model:
    """Builds `model` from `fields`, or says where and why not.

    Raises:
        PromptError: `fields` is not what `model` takes; one sentence that starts with `where` and ends with `advice`.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise PromptError(f"{where}: {_explain(error.errors()[0])}; {advice}.") from error


def check_categories(known: Collection[str], wanted: Collection[str] | None) -> None:
    """Refuses categories that a set does not have.

    Raises:
        PromptError: One of `wanted` is not in `known`.
    """
    unknown = [category for category in wanted or () if category not in known]
    if unknown:
        raise PromptError(f'The prompt set has no category "{unknown[0]}": choose among {", ".join(known)}.')


def select(
    prompts: list[Prompt],
    *,
    split: Split | None = None,
    categories: Collection[str] | None = None,
    per_category: int | None = None,
) -> list[Prompt]:
    """Takes a part of a set; the order of the set is kept.

    `per_category` takes the first prompts of each category (all of them where there are fewer), after `split` has been
    applied, so what a small number selects is always a subset of what a larger one selects.

    Raises:
        PromptError: Unknown split or category, or a `per_category` below 1.
    """
    if split is not None and split not in SPLITS:
        raise PromptError(f'There is no split "{split}": choose "tune" or "test", or leave it out for both.')
    if per_category is not None and per_category < 1:
        raise PromptError(f"per_category is {per_category}: ask for at least one prompt per category.")
    check_categories(list(dict.fromkeys(prompt.category for prompt in prompts)), categories)
    chosen: list[Prompt] = []
    taken: dict[str, int] = {}
    for prompt in prompts:
        if (split and prompt.split != split) or (categories is not None and prompt.category not in categories):
            continue
        taken[prompt.category] = taken.get(prompt.category, 0) + 1
        if per_category is None or taken[prompt.category] <= per_category:
            chosen.append(prompt)
    return chosen

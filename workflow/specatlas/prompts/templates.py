"""Instructions for the training corpus, made from templates and slot fillers (`data/corpus/templates.yaml`).

The file has two parts. `slots` maps a name to its fillers; `kinds` maps each kind of task to its templates. A template
refers to a slot with `<<name>>` and to a number with `<<3..40>>`; a filler may refer to further slots. Inside one
instruction the same reference always stands for the same text, so a question can speak of the person that its passage
is about; references to one slot under several labels, `<<name#1>>` and `<<name#2>>`, stand for different fillers.

None of the evaluation prompts can come out of it; a test compares them word by word.
"""

import graphlib
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field

from specatlas.project import find_project
from specatlas.prompts.atlas import CATEGORIES
from specatlas.prompts.rows import read_text
from specatlas.prompts.schema import PromptError, validated

TEMPLATES = Path("data") / "corpus" / "templates.yaml"
REFERENCE = re.compile(r"<<([^<>]+)>>")
NUMBER = re.compile(r"(\d+)\.\.(\d+)")

# A kind with so many misses in a row has given nearly all it can; asking on would only take longer and longer.
ATTEMPTS = 200

Texts = Annotated[tuple[str, ...], Field(min_length=1)]


class Templates(BaseModel):
    """The content of the template file.

    Attributes:
        slots: Fillers of each slot.
        kinds: Templates of each kind of task; the kinds are the categories of the evaluation prompts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: dict[str, Texts]
    kinds: dict[str, Texts]


def load_templates(path: Path) -> Templates:
    """Reads a template file and checks that every reference leads somewhere.

    Raises:
        PromptError: The file is not YAML, has wrong keys or kinds, or refers to a slot that it does not define.
    """
    try:
        fields = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise PromptError(f"{path}: this is not YAML ({' '.join(str(error).split())}); correct the line.") from error
    templates = validated(Templates, fields, str(path), 'give "slots" and "kinds", each a list of texts by name')
    if set(templates.kinds) != set(CATEGORIES):
        raise PromptError(f"{path}: the kinds are not the twelve categories; use exactly {', '.join(CATEGORIES)}.")
    for name, texts in {**templates.slots, **templates.kinds}.items():
        for reference in REFERENCE.findall("\n".join(texts)):
            slot = reference.partition("#")[0]
            if slot not in templates.slots and not NUMBER.fullmatch(slot):
                raise PromptError(f'{path}: "{name}" refers to the slot "{slot}"; define it under "slots".')
    _refuse_circles(templates, path)
    return templates


def _refuse_circles(templates: Templates, path: Path) -> None:
    graph = {
        name: {reference.partition("#")[0] for reference in REFERENCE.findall("\n".join(texts))}
        for name, texts in templates.slots.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        circle = " -> ".join(error.args[1])
        raise PromptError(f"{path}: slots refer to each other in a circle ({circle}); break it.") from error


def generate_instructions(count: int, seed: int, *, project_root: Path | None = None) -> list[str]:
    """Makes `count` distinct instructions; the kinds of task take turns.

    The first n instructions of a larger count are those of the count n.

    Args:
        count: How many.
        seed: Equal seeds give equal instructions, on every machine.
        project_root: Folder that holds `data/corpus`; the current checkout when left out.

    Raises:
        PromptError: The template file is malformed, or it cannot give so many distinct instructions.
    """
    path = (project_root or find_project().root) / TEMPLATES
    templates = load_templates(path)
    generator = random.Random(seed)
    seen: dict[str, None] = {}
    for index in range(count):
        kind = CATEGORIES[index % len(CATEGORIES)]
        for _ in range(ATTEMPTS):
            instruction = _Expansion(templates.slots, generator).expand(generator.choice(templates.kinds[kind])).strip()
            if instruction not in seen:
                seen[instruction] = None
                break
        else:
            raise PromptError(f'{path}: the templates of "{kind}" give too few instructions for {count}; add fillers.')
    return list(seen)


class _Expansion:
    """Fills the references of one instruction and remembers what each stands for."""

    def __init__(self, slots: Mapping[str, tuple[str, ...]], generator: random.Random) -> None:
        self._slots = slots
        self._generator = generator
        self._filled: dict[str, str] = {}
        self._used: dict[str, set[str]] = {}

    def expand(self, text: str) -> str:
        return REFERENCE.sub(lambda match: self._fill(match[1]), text)

    def _fill(self, reference: str) -> str:
        if reference not in self._filled:
            slot = reference.partition("#")[0]
            number = NUMBER.fullmatch(slot)
            self._filled[reference] = (
                str(self._generator.randint(int(number[1]), int(number[2])))
                if number
                else self.expand(self._pick(slot))
            )
        return self._filled[reference]

    def _pick(self, slot: str) -> str:
        used = self._used.setdefault(slot, set())
        fillers = [filler for filler in self._slots[slot] if filler not in used] or list(self._slots[slot])
        filler = self._generator.choice(fillers)
        used.add(filler)
        return filler

"""SpecAtlas's own evaluation prompts: `data/prompts/*.jsonl` and the manifest that fixes their content."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field

from specatlas.prompts.rows import Gathering, Row, parse_json_lines, read_text
from specatlas.prompts.schema import ADVICE, SPLITS, Prompt, PromptError, Split, select, validated

MANIFEST = "prompts.yaml"
CATEGORIES = (
    "open_chat",
    "writing",
    "roleplay",
    "question_answering",
    "summarization",
    "translation",
    "math",
    "reasoning",
    "coding",
    "code_editing",
    "retrieval_grounded",
    "structured_extraction",
)


class ManifestModel(BaseModel):
    """Base of the manifest's parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PromptFile(ManifestModel):
    """What the manifest says of one file.

    Attributes:
        sha256: Hex SHA-256 of the file's bytes.
        prompts: Number of prompts in it.
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    prompts: Annotated[int, Field(ge=1)]


class Manifest(ManifestModel):
    """`data/prompts/prompts.yaml`: name, licence and description of the set, and its files in order."""

    name: str
    licence: str
    description: str
    files: dict[str, PromptFile]


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of the prompt folder.

    Raises:
        PromptError: It is missing, not YAML, or has wrong keys.
    """
    path = folder / MANIFEST
    try:
        fields = yaml.safe_load(read_text(path))
    except yaml.YAMLError as error:
        raise PromptError(f"{path}: this is not YAML ({' '.join(str(error).split())}); restore the file.") from error
    advice = 'give "name", "licence", "description" and, under "files", "sha256" and "prompts" for each file'
    return validated(Manifest, fields, str(path), advice)


def load_atlas(
    folder: Path,
    *,
    split: Split | None = None,
    categories: Collection[str] | None = None,
    per_category: int | None = None,
) -> list[Prompt]:
    """Loads the set, or the part of it that `specatlas.prompts.schema.select` describes.

    Every file is checked in any case: a set with one altered file is not the set that its name promises.

    Args:
        folder: The project's `data/prompts`.
        split: `tune` or `test`; both when left out.
        categories: Kinds of task to keep; all of them when left out.
        per_category: At most so many prompts of each category, from its beginning.

    Raises:
        PromptError: A file differs from the manifest or holds a malformed prompt; or the selection is impossible.
    """
    gathering = Gathering()
    for name, expected in read_manifest(folder).files.items():
        _load_file(folder / name, expected, gathering)
    return select(gathering.prompts, split=split, categories=categories, per_category=per_category)


def _load_file(path: Path, expected: PromptFile, gathering: Gathering) -> None:
    # Lines are checked before the hash: whoever edits a file learns of the broken line first, and of the manifest last.
    text = read_text(path)
    rows = list(parse_json_lines(text, str(path)))
    for index, row in enumerate(rows, start=1):
        gathering.add(_check(row, path.stem, index), row.where)
    if len(rows) != expected.prompts:
        raise PromptError(
            f"{path}: {len(rows)} prompts instead of {expected.prompts}; restore it or update {MANIFEST}."
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected.sha256:
        raise PromptError(
            f"{path}: its sha256 is {found}, but {MANIFEST} says {expected.sha256}; restore the file, or update the "
            "manifest if the change is meant."
        )


def _check(row: Row, category: str, index: int) -> Prompt:
    """Checks a prompt's form and place: file `math.jsonl` holds `math-01` (tune), `math-02` (test) and so on."""
    prompt = validated(Prompt, row.fields, row.where, ADVICE)
    expected = {"category": category, "id": f"{category}-{index:02d}", "split": SPLITS[(index - 1) % 2]}
    for key, wanted in expected.items():
        value = getattr(prompt, key)
        if value != wanted:
            raise PromptError(
                f'{row.where}: the {key} is "{value}" and should be "{wanted}"; number the prompts from 01 and let the '
                "splits alternate, tune first."
            )
    return prompt

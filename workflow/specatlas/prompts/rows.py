"""Rows of prompt files, each with the place it came from, so that a complaint can name it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specatlas.prompts.schema import Prompt, PromptError


@dataclass(frozen=True)
class Row:
    """One JSON object of a prompt file or one row of a hub data set.

    Attributes:
        where: Place for people, e.g. `data/prompts/math.jsonl, line 3`.
        fields: The decoded value; its form has not been checked.
    """

    where: str
    fields: object


def read_text(path: Path) -> str:
    """Reads a UTF-8 file.

    Raises:
        PromptError: The file is missing, unreadable or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PromptError(f"{path}: {error.strerror or error}; check the path and the permissions.") from error
    except UnicodeDecodeError as error:
        raise PromptError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8.") from error


def parse_json_lines(text: str, source: str) -> Iterator[Row]:
    r"""Yields the object of each line; empty lines are skipped, and only "\n" ends a line.

    Raises:
        PromptError: A line is not JSON.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        try:
            yield Row(where, json.loads(line))
        except ValueError as error:
            raise PromptError(f"{where}: this is not JSON ({error}); put one JSON object on each line.") from error


class Gathering:
    """Collects the prompts of a set and refuses an id that comes twice."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self._places: dict[str, str] = {}

    def add(self, prompt: Prompt, where: str) -> None:
        """Appends `prompt`.

        Raises:
            PromptError: Its id has been used before.
        """
        if prompt.id in self._places:
            first = self._places[prompt.id]
            raise PromptError(f'{where}: the id "{prompt.id}" was used before ({first}); give each prompt its own id.')
        self._places[prompt.id] = where
        self.prompts.append(prompt)

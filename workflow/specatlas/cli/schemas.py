"""JSON schemas drawn from the pydantic models, so that files can be checked without Python."""

import json
from pathlib import Path

from pydantic import BaseModel

from specatlas.analysis.schema import Boards
from specatlas.catalog.card import Card
from specatlas.config import Config
from specatlas.files import write_text
from specatlas.records.schema import Record

SCHEMA_FOLDER = "workflow/schemas"
MODELS: dict[str, type[BaseModel]] = {"config": Config, "card": Card, "record": Record, "board": Boards}


def current_schemas() -> dict[str, str]:
    """File name to text, as the models say now."""
    return {
        f"{name}.schema.json": json.dumps(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()},
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
        for name, model in MODELS.items()
    }


def outdated(folder: Path, schemas: dict[str, str]) -> list[str]:
    """The names of the files that are missing or differ."""

    def text(path: Path) -> str | None:
        return path.read_text(encoding="utf-8") if path.is_file() else None

    return [name for name, wanted in schemas.items() if text(folder / name) != wanted]


def write_schemas(folder: Path, schemas: dict[str, str]) -> None:
    """Writes every schema."""
    for name, text in schemas.items():
        write_text(folder / name, text)

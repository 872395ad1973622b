"""Public prompt sets, read from their own sources: Spec-Bench, MT-bench and SPEED-Bench. None is redistributed here.

Each loader takes a local file, or fetches a source that is pinned by content or by hub revision; `datasets` is imported
only for the latter. The sets have no tuning split of their own; ours alternates inside each category, tune first.
"""

import hashlib
import re
import urllib.request
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from specatlas.prompts.rows import Gathering, Row, parse_json_lines, read_text
from specatlas.prompts.schema import SPLITS, Prompt, PromptError, check_categories, validated

SPEC_BENCH_URL = "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/question.jsonl"
SPEC_BENCH_SHA256 = "4b6d33e79484f9841c487ee87d1cf6aa8c6066f61d5d482ff09e5a007fafdf04"
MT_BENCH_REPO = "HuggingFaceH4/mt_bench_prompts"
MT_BENCH_REVISION = "e3a795c5e9a82ee40611c416b8a7786c73198991"
SPEED_BENCH_REPO = "nvidia/SPEED-Bench"
SPEED_BENCH_REVISION = "487aa718444e816458d1a0a52bfce7a454285cf4"
SPEED_BENCH_CONFIGS = (
    "qualitative",
    "throughput_1k",
    "throughput_2k",
    "throughput_8k",
    "throughput_16k",
    "throughput_32k",
)
SPEED_BENCH_PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"

# Spec-Bench reports six sub-tasks; the eight categories that it took over from MT-bench are one of them.
_MT_BENCH_CATEGORIES = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
SPEC_BENCH_CATEGORIES = {
    **dict.fromkeys(_MT_BENCH_CATEGORIES, "open_chat"),
    "translation": "translation",
    "summarization": "summarization",
    "qa": "question_answering",
    "math_reasoning": "math",
    "rag": "retrieval_grounded",
}
# Where a set's category is one of ours under another name it takes our name; any other keeps its own (`stem`).
OUR_NAMES = {"extraction": "structured_extraction", "qa": "question_answering", "rag": "retrieval_grounded"}

_ADVICE = 'each row needs "question_id", "category" and "turns", as in the file that the benchmark publishes'


class Question(BaseModel):
    """A row of one of the three sets; they differ in names only. Answers, sources and difficulties are not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    question_id: str | int = Field(validation_alias=AliasChoices("question_id", "prompt_id"))
    category: str
    turns: tuple[str, ...] = Field(validation_alias=AliasChoices("turns", "prompt"))


def load_spec_bench(path: Path | None = None) -> list[Prompt]:
    """Loads Spec-Bench's `question.jsonl` (Apache-2.0); its categories become the six sub-tasks that it reports.

    Args:
        path: A local copy; when left out, the file is fetched and must have the content that this release knows.

    Raises:
        PromptError: The file cannot be had, or a line is malformed or has an unknown category.
    """
    text, source = (read_text(path), str(path)) if path else (_fetch_spec_bench(), SPEC_BENCH_URL)
    questions = _questions(parse_json_lines(text, source))
    for where, question in questions:
        if question.category not in SPEC_BENCH_CATEGORIES:
            raise PromptError(
                f'{where}: Spec-Bench has no category "{question.category}"; use its published question.jsonl.'
            )
    return _prompts(questions, SPEC_BENCH_CATEGORIES)


def load_mt_bench(path: Path | None = None) -> list[Prompt]:
    """Loads MT-bench's two-turn questions.

    Args:
        path: A local `question.jsonl` in the form that FastChat publishes; when left out, the pinned hub repository.

    Raises:
        PromptError: The file cannot be had, or a line is malformed.
    """
    if path:
        rows: Iterable[Row] = parse_json_lines(read_text(path), str(path))
    else:
        rows = _hub_rows(
            f"{MT_BENCH_REPO}@{MT_BENCH_REVISION[:7]}", MT_BENCH_REPO, split="train", revision=MT_BENCH_REVISION
        )
    return _prompts(_questions(rows), OUR_NAMES)


def load_speed_bench(source: str | Path, *, categories: Collection[str] | None = None) -> list[Prompt]:
    """Loads one configuration of SPEED-Bench.

    Many rows on the hub are placeholders for texts that NVIDIA may not redistribute; they are refused, since decoding
    them would measure nothing. Rows outside `categories` are not looked at.

    Args:
        source: A configuration (`qualitative`, `throughput_1k`, ...) of the pinned hub repository, or the path of a
            file that NVIDIA's prepare_data.py has completed (.jsonl or .parquet).
        categories: Categories to load, in our names where we have one; all of them when left out.

    Raises:
        PromptError: The source cannot be had, a row is malformed or a placeholder, or a category does not exist.
    """
    questions = _questions(_speed_bench_rows(source))
    check_categories(list(dict.fromkeys(_renamed(question.category) for _, question in questions)), categories)
    kept = [item for item in questions if categories is None or _renamed(item[1].category) in categories]
    for where, question in kept:
        if any(SPEED_BENCH_PLACEHOLDER in turn for turn in question.turns):
            raise PromptError(
                f"{where}: this row is a placeholder for a text that SPEED-Bench does not carry; complete the set with "
                "NVIDIA's prepare_data.py and load the file as speed_bench:<file>, or leave its category out."
            )
    return _prompts(kept, OUR_NAMES)


def _speed_bench_rows(source: str | Path) -> Iterable[Row]:
    if str(source) in SPEED_BENCH_CONFIGS:
        label = f"{SPEED_BENCH_REPO}@{SPEED_BENCH_REVISION[:7]} ({source})"
        return _hub_rows(label, SPEED_BENCH_REPO, str(source), split="test", revision=SPEED_BENCH_REVISION)
    path = Path(source)
    if not path.is_file():
        raise PromptError(
            f"SPEED-Bench: {source} is neither a file nor a configuration; choose {', '.join(SPEED_BENCH_CONFIGS)} "
            "or a file that NVIDIA's prepare_data.py has completed."
        )
    if path.suffix == ".parquet":
        return _hub_rows(str(path), "parquet", data_files=str(path), split="train")
    return parse_json_lines(read_text(path), str(path))


def _fetch_spec_bench() -> str:
    # Spec-Bench is published on GitHub only, and `datasets` reads plain web addresses only with extra packages.
    try:
        with urllib.request.urlopen(SPEC_BENCH_URL, timeout=60) as response:
            data: bytes = response.read()
    except OSError as error:
        raise _unreachable(SPEC_BENCH_URL, error) from error
    found = hashlib.sha256(data).hexdigest()
    if found != SPEC_BENCH_SHA256:
        raise PromptError(
            f"{SPEC_BENCH_URL}: the file has changed (sha256 {found}); load a copy of the version you want with "
            "spec_bench:<file>."
        )
    return data.decode()


def _unreachable(label: str, error: Exception) -> PromptError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return PromptError(f"{label}: could not be loaded ({reason}); check the network or give a local file.")


def _hub_rows(label: str, *where: str, **options: str) -> list[Row]:
    rows = _load_dataset(label, *where, **options)
    return [Row(f"{label}, row {number}", dict(row)) for number, row in enumerate(rows, start=1)]


def _load_dataset(label: str, *where: str, **options: str) -> Any:
    # `datasets` takes a second to import and pulls in pandas; people with a local file need neither it nor a network.
    try:
        import datasets
    except ImportError as error:
        raise PromptError(f"{label}: the package datasets is missing; install it or give a local file.") from error
    try:
        return datasets.load_dataset(*where, **options)
    # The hub client raises what its HTTP library raises, which changes from release to release.
    except Exception as error:
        raise _unreachable(label, error) from error


def _questions(rows: Iterable[Row]) -> list[tuple[str, Question]]:
    return [(row.where, validated(Question, row.fields, row.where, _ADVICE)) for row in rows]


def _renamed(category: str) -> str:
    return OUR_NAMES.get(category, category)


def _prompts(questions: Iterable[tuple[str, Question]], names: dict[str, str]) -> list[Prompt]:
    """Turns questions into prompts: categories renamed, splits alternating inside each category."""
    gathering = Gathering()
    counts: dict[str, int] = {}
    for where, question in questions:
        category = names.get(question.category, question.category)
        index = counts.get(category, 0)
        counts[category] = index + 1
        slug = re.sub(r"[^A-Za-z0-9_.-]", "_", str(question.question_id))
        fields = {"id": f"{category}-{slug}", "category": category, "split": SPLITS[index % 2], "turns": question.turns}
        gathering.add(validated(Prompt, fields, where, _ADVICE), where)
    if not gathering.prompts:
        raise PromptError("The prompt set is empty: give a file with at least one question.")
    return gathering.prompts

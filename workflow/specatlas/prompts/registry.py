"""Prompt sets by name, as configurations and the command line give them.

A name is `<set>` or `<set>:<source>`; a path is taken relative to the project.

    atlas                      SpecAtlas's own prompts, data/prompts
    spec_bench                 Spec-Bench, fetched, fixed content
    spec_bench:<file>          Spec-Bench's question.jsonl
    mt_bench                   MT-bench, pinned hub revision
    mt_bench:<file>            MT-bench's question.jsonl
    speed_bench                the same as speed_bench:qualitative
    speed_bench:<config>       SPEED-Bench, pinned hub revision (placeholder rows are refused)
    speed_bench:<file>         SPEED-Bench as completed by NVIDIA's prepare_data.py (.jsonl or .parquet)
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from specatlas.files import sha256_of_json
from specatlas.prompts.atlas import load_atlas
from specatlas.prompts.external import SPEED_BENCH_CONFIGS, load_mt_bench, load_spec_bench, load_speed_bench
from specatlas.prompts.schema import Prompt, PromptError, Split, select

FORMS = ("atlas", "spec_bench[:<file>]", "mt_bench[:<file>]", "speed_bench[:<config or file>]")


def load_prompt_set(
    name: str,
    project_root: Path,
    *,
    split: Split | None = None,
    categories: Collection[str] | None = None,
    per_category: int | None = None,
) -> list[Prompt]:
    """Loads a set by name (see this module's page), or a part of it.

    Args:
        name: E.g. `atlas`, `spec_bench:downloads/question.jsonl`, `speed_bench:throughput_1k`.
        project_root: Folder that holds `data/prompts`.
        split: `tune` or `test`; both when left out.
        categories: Categories to keep; all of them when left out.
        per_category: At most so many prompts of each category, always a prefix: small selections are subsets of large.

    Returns:
        The prompts in the set's own order.

    Raises:
        PromptError: Unknown name, malformed or altered file, placeholder row, or an impossible selection.
    """
    prompts = _load(name, project_root, categories)
    return select(prompts, split=split, categories=categories, per_category=per_category)


def _load(name: str, root: Path, categories: Collection[str] | None) -> list[Prompt]:
    kind, colon, source = name.partition(":")
    path = root / source if source else None
    if kind == "atlas" and not colon:
        return load_atlas(root / "data" / "prompts")
    if bool(colon) == bool(source):
        if kind == "spec_bench":
            return load_spec_bench(path)
        if kind == "mt_bench":
            return load_mt_bench(path)
        if kind == "speed_bench":
            return load_speed_bench(_speed_bench_source(source, root), categories=categories)
    raise PromptError(f'There is no prompt set "{name}": choose {", ".join(FORMS)}.')


def _speed_bench_source(source: str, root: Path) -> str | Path:
    config = source or SPEED_BENCH_CONFIGS[0]
    return config if config in SPEED_BENCH_CONFIGS else root / config


def prompt_set_sha256(prompts: Iterable[Prompt]) -> str:
    """Hex SHA-256 of the prompts' content, whatever their order: the order of decoding is drawn from a seed."""
    return sha256_of_json([prompt.model_dump(mode="json") for prompt in sorted(prompts, key=lambda prompt: prompt.id)])

import itertools
import json
from pathlib import Path

import pytest

from specatlas.prompts.registry import load_prompt_set, prompt_set_sha256
from specatlas.prompts.schema import PromptError

ROOT = Path(__file__).resolve().parents[3]


def test_the_atlas_set_by_name():
    assert len(load_prompt_set("atlas", ROOT)) == 192
    tune = load_prompt_set("atlas", ROOT, split="tune", categories=["math", "coding"], per_category=3)
    assert [p.id for p in tune] == ["math-01", "math-03", "math-05", "coding-01", "coding-03", "coding-05"]


def test_small_configurations_are_subsets_of_larger_ones():
    chosen = [{p.id for p in load_prompt_set("atlas", ROOT, split="test", per_category=n)} for n in (1, 2, 5, 8, 99)]
    assert [len(ids) for ids in chosen] == [12, 24, 60, 96, 96]
    assert all(small <= large for small, large in itertools.pairwise(chosen))


@pytest.mark.parametrize("kind", ["spec_bench", "mt_bench", "speed_bench"])
def test_files_are_taken_relative_to_the_project(tmp_path, kind):
    (tmp_path / "downloads").mkdir()
    rows = [{"question_id": i, "category": "writing", "turns": ["Hello?"]} for i in range(4)]
    (tmp_path / "downloads" / "question.jsonl").write_text("\n".join(map(json.dumps, rows)))
    prompts = load_prompt_set(f"{kind}:downloads/question.jsonl", tmp_path, split="test", per_category=1)
    assert [p.id.partition("-")[2] for p in prompts] == ["1"]


@pytest.mark.parametrize("name", ["", "atlass", "atlas:file", "spec_bench:", "mt-bench:x", "speed_bench:"])
def test_an_unknown_name_lists_the_forms(name):
    with pytest.raises(PromptError, match=r"choose atlas, spec_bench\[:<file>\]"):
        load_prompt_set(name, ROOT)


def test_the_hash_names_the_content_and_not_the_order():
    prompts = load_prompt_set("atlas", ROOT, per_category=2)
    digest = prompt_set_sha256(prompts)
    assert len(digest) == 64
    assert prompt_set_sha256(reversed(prompts)) == digest
    assert prompt_set_sha256(prompts[1:]) != digest
    changed = prompts[0].model_copy(update={"turns": ("Other?",)})
    assert prompt_set_sha256([changed, *prompts[1:]]) != digest

import itertools
import re
import subprocess
import sys

import pytest
from pydantic import ValidationError

from specatlas.errors import SpecAtlasError
from specatlas.prompts.schema import ADVICE, Prompt, PromptError, select, validated

GOOD = {"id": "math-01", "category": "math", "split": "tune", "turns": ["What is 2 + 2?"]}


def test_a_prompt_keeps_its_turns_and_does_not_change():
    prompt = Prompt.model_validate(GOOD)
    assert prompt.turns == ("What is 2 + 2?",)
    with pytest.raises(ValidationError):
        prompt.split = "test"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"turns": []}, '"turns" is wrong'),
        ({"turns": ["Hello", "  \n"]}, "a turn is empty"),
        ({"turns": "Hello"}, '"turns" should be a valid tuple'),
        ({"turns": [3]}, '"turns.0" should be a valid string'),
        ({"split": "train"}, "\"split\" should be 'tune' or 'test'"),
        ({"id": "writing-01"}, 'id "writing-01" does not start with the category "math"'),
        ({"id": "math"}, '"id" is wrong'),
        ({"answer": "4"}, 'the key "answer" is unknown'),
    ],
)
def test_a_malformed_prompt_is_refused_in_one_sentence(change, reason):
    with pytest.raises(PromptError, match=re.escape(reason)) as caught:
        validated(Prompt, GOOD | change, "math.jsonl, line 1", ADVICE)
    message = str(caught.value)
    assert message.startswith("math.jsonl, line 1: ")
    assert message.endswith(f"; {ADVICE}.")
    assert "\n" not in message


def test_what_is_not_an_object_is_refused():
    with pytest.raises(PromptError, match="line 1"):
        validated(Prompt, ["math-01"], "math.jsonl, line 1", ADVICE)


def test_the_error_is_one_of_ours():
    assert issubclass(PromptError, SpecAtlasError)


def _set():
    return [
        Prompt(id=f"{category}-{i:02d}", category=category, split=("test", "tune")[i % 2], turns=("x",))
        for category in ("math", "writing")
        for i in range(1, 7)
    ]


def test_select_by_split_category_and_number():
    ids = [p.id for p in select(_set(), split="test", categories=["writing"], per_category=2)]
    assert ids == ["writing-02", "writing-04"]
    assert select(_set(), categories=[]) == []
    assert select(_set()) == _set()


@pytest.mark.parametrize("split", [None, "tune", "test"])
def test_what_a_small_number_selects_is_a_subset_of_what_a_larger_one_selects(split):
    chosen = [{p.id for p in select(_set(), split=split, per_category=n)} for n in range(1, 9)]
    assert all(small <= large for small, large in itertools.pairwise(chosen))
    assert len(chosen[0]) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"split": "train"}, 'no split "train"'),
        ({"categories": ["maths"]}, 'no category "maths": choose among math, writing'),
        ({"per_category": 0}, "at least one prompt"),
    ],
)
def test_an_impossible_selection_is_refused(arguments, reason):
    with pytest.raises(PromptError, match=reason):
        select(_set(), **arguments)


def test_the_package_imports_no_heavy_library():
    code = (
        "import sys, specatlas.prompts.registry, specatlas.prompts.templates;"
        "print([name for name in ('torch', 'transformers', 'datasets', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

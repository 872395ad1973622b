import re
from pathlib import Path

import pytest
import yaml

from specatlas.prompts.atlas import CATEGORIES
from specatlas.prompts.registry import load_prompt_set
from specatlas.prompts.schema import PromptError
from specatlas.prompts.templates import REFERENCE, TEMPLATES, generate_instructions, load_templates

ROOT = Path(__file__).resolve().parents[3]


def words(text):
    return re.findall(r"\w+", text.lower())


def eight_grams(text):
    listed = words(text)
    return {tuple(listed[i : i + 8]) for i in range(len(listed) - 7)}


@pytest.fixture(scope="module")
def sample():
    return generate_instructions(3000, seed=11, project_root=ROOT)


def test_twenty_thousand_distinct_instructions_are_possible():
    made = generate_instructions(20_000, seed=0, project_root=ROOT)
    assert len(set(made)) == len(made) == 20_000


def test_the_seed_decides_and_a_smaller_count_is_a_prefix(sample):
    assert generate_instructions(50, seed=11, project_root=ROOT) == sample[:50]
    assert generate_instructions(50, seed=12, project_root=ROOT) != sample[:50]
    assert generate_instructions(0, seed=1, project_root=ROOT) == []


def test_no_evaluation_prompt_can_leak_into_the_corpus(sample):
    turns = [turn for prompt in load_prompt_set("atlas", ROOT) for turn in prompt.turns]
    assert not set(turns) & set(sample)
    forbidden = set().union(*map(eight_grams, turns))
    clashes = [" ".join(gram) for text in sample for gram in eight_grams(text) & forbidden]
    assert clashes == []


def test_not_even_an_unfilled_template_shares_eight_words_with_an_evaluation_prompt():
    templates = load_templates(ROOT / TEMPLATES)
    turns = [turn for prompt in load_prompt_set("atlas", ROOT) for turn in prompt.turns]
    forbidden = set().union(*map(eight_grams, turns))
    texts = [text for group in (templates.slots, templates.kinds) for texts in group.values() for text in texts]
    assert not any(eight_grams(REFERENCE.sub("7", text)) & forbidden for text in texts)


def test_instructions_are_filled_and_of_the_promised_lengths(sample):
    assert not any(REFERENCE.search(text) for text in sample)
    for index, category in enumerate(CATEGORIES):
        lengths = [len(re.findall(r"\w+|[^\w\s]", text)) for text in sample[index :: len(CATEGORIES)]]
        long = category in {"summarization", "code_editing", "retrieval_grounded", "structured_extraction"}
        assert (40 if long else 3) <= min(lengths), category
        assert max(lengths) <= (280 if long else 110), category


def write(root, slots, **kinds):
    path = root / TEMPLATES
    path.parent.mkdir(parents=True, exist_ok=True)
    all_kinds = {category: ["Say <<1..99>>."] for category in CATEGORIES} | kinds
    path.write_text(yaml.safe_dump({"slots": slots, "kinds": all_kinds}))
    return root


def test_a_reference_means_the_same_throughout_and_labels_mean_different_fillers(tmp_path):
    slots = {"name": ["Ann", "Bob"], "story": ["<<name#1>> met <<name#2>>."]}
    write(tmp_path, slots, open_chat=["<<story>> Who met <<name#2>>? Not <<name#2>>! <<1..999>>"])
    for text in generate_instructions(40, 3, project_root=tmp_path)[:: len(CATEGORIES)]:
        assert re.fullmatch(r"(Ann|Bob) met (?!\1)(Ann|Bob)\. Who met \2\? Not \2! \d+", text)


@pytest.mark.parametrize(
    ("slots", "kinds", "reason"),
    [
        ({"a": ["x"]}, {"math": ["<<b>>"]}, '"math" refers to the slot "b"'),
        ({"a": ["<<b>>"], "b": ["<<a#1>>"]}, {}, "in a circle"),
        ({"a": []}, {}, '"slots.a" is wrong'),
        ({"a": ["x"]}, {"cooking": ["x"]}, "not the twelve categories"),
    ],
)
def test_a_broken_template_file_is_refused(tmp_path, slots, kinds, reason):
    with pytest.raises(PromptError, match=reason) as caught:
        load_templates(write(tmp_path, slots, **kinds) / TEMPLATES)
    assert str(caught.value).startswith(str(tmp_path / TEMPLATES))


def test_exhausted_templates_are_named(tmp_path):
    with pytest.raises(PromptError, match='the templates of "math" give too few instructions for 40'):
        generate_instructions(40, 1, project_root=write(tmp_path, {"a": ["x"]}, math=["1 + 1?"]))


def test_the_current_checkout_is_the_default(tmp_path, monkeypatch):
    write(tmp_path, {"a": ["x"]})
    (tmp_path / "Snakefile").touch()
    (tmp_path / "methods").mkdir()
    monkeypatch.setenv("SPECATLAS_ROOT", str(tmp_path))
    assert len(generate_instructions(3, 1)) == 3

import hashlib
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
import yaml

from specatlas.prompts.atlas import CATEGORIES, MANIFEST, load_atlas, read_manifest
from specatlas.prompts.schema import PromptError

FOLDER = Path(__file__).resolve().parents[3] / "data" / "prompts"


def pieces(text):
    """Words and punctuation marks: a proxy for tokens, of which there are about as many."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def test_twelve_categories_of_sixteen_prompts_with_alternating_splits():
    prompts = load_atlas(FOLDER)
    assert list(dict.fromkeys(p.category for p in prompts)) == list(CATEGORIES)
    for category in CATEGORIES:
        mine = [p for p in prompts if p.category == category]
        assert [p.id for p in mine] == [f"{category}-{i:02d}" for i in range(1, 17)]
        assert [p.split for p in mine] == ["tune", "test"] * 8


def test_the_manifest_is_right_and_complete():
    manifest = read_manifest(FOLDER)
    assert (manifest.name, manifest.licence) == ("atlas", "Apache-2.0")
    assert set(manifest.files) == {path.name for path in FOLDER.glob("*.jsonl")}
    for name, file in manifest.files.items():
        data = (FOLDER / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == file.sha256
        assert len(data.splitlines()) == file.prompts == 16


def test_keys_are_exactly_the_four():
    for path in FOLDER.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert list(json.loads(line)) == ["id", "category", "split", "turns"]


def test_open_chat_has_two_turns_and_nothing_else_has():
    for prompt in load_atlas(FOLDER):
        assert len(prompt.turns) == (2 if prompt.category == "open_chat" else 1)


def test_no_two_prompts_are_alike():
    turns = [turn for prompt in load_atlas(FOLDER) for turn in prompt.turns]
    assert len(set(turns)) == len(turns)
    openings = Counter(" ".join(turn.split()[:4]).lower() for turn in turns)
    assert openings.most_common(1)[0][1] <= 8


@pytest.mark.parametrize(
    ("category", "low", "high"),
    [
        ("summarization", 150, 600),
        ("code_editing", 150, 600),
        ("retrieval_grounded", 150, 600),
        ("structured_extraction", 80, 300),
    ],
)
def test_prompts_that_carry_a_passage_have_the_promised_length(category, low, high):
    for prompt in load_atlas(FOLDER, categories=[category]):
        assert low <= pieces(prompt.turns[0]) <= high, prompt.id


def test_no_prompt_is_long_for_a_small_context():
    assert all(sum(pieces(turn) for turn in prompt.turns) < 700 for prompt in load_atlas(FOLDER))


def test_grounded_prompts_number_their_passages():
    for prompt in load_atlas(FOLDER, categories=["retrieval_grounded"]):
        assert all(f"[{number}] " in prompt.turns[0] for number in (1, 2, 3, 4)), prompt.id


def test_translation_is_multilingual_in_both_splits():
    for split in ("tune", "test"):
        text = "".join(p.turns[0] for p in load_atlas(FOLDER, split=split, categories=["translation"]))
        scripts = {unicodedata.name(letter).split()[0] for letter in text if letter.isalpha()}
        assert {"LATIN", "CYRILLIC", "CJK"} <= scripts


def test_code_comes_in_several_languages():
    for split in ("tune", "test"):
        editing = "".join(p.turns[0] for p in load_atlas(FOLDER, split=split, categories=["code_editing"]))
        assert len(set(re.findall(r"```(\w+)", editing))) >= 5


def _write_set(folder, lines, **changes):
    data = "".join(f"{line}\n" for line in lines).encode()
    folder.mkdir(exist_ok=True)
    (folder / "math.jsonl").write_bytes(data)
    file = {"sha256": hashlib.sha256(data).hexdigest(), "prompts": len(lines)} | changes
    manifest = {"name": "atlas", "licence": "Apache-2.0", "description": "small", "files": {"math.jsonl": file}}
    (folder / MANIFEST).write_text(yaml.safe_dump(manifest))
    return folder


def _line(index=1, **changes):
    fields = {"id": f"math-{index:02d}", "category": "math", "split": ("test", "tune")[index % 2], "turns": ["1 + 1?"]}
    return json.dumps({key: value for key, value in (fields | changes).items() if value is not None})


def test_a_small_set_loads(tmp_path):
    prompts = load_atlas(_write_set(tmp_path, [_line(1), _line(2)]))
    assert [p.id for p in prompts] == ["math-01", "math-02"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "math-02", ', "this is not JSON"),
        (_line(2, split=None), 'the key "split" is missing'),
        (_line(2, answer="2"), 'the key "answer" is unknown'),
        (_line(2, turns=[""]), "a turn is empty"),
        (_line(2, split="train"), "\"split\" should be 'tune' or 'test'"),
        (_line(2, split="tune"), 'the split is "tune" and should be "test"'),
        (_line(3), 'the id is "math-03" and should be "math-02"'),
        (_line(2, id="writing-02", category="writing"), 'the category is "writing" and should be "math"'),
        ("[]", "should be a valid dictionary"),
    ],
)
def test_a_malformed_line_is_refused_by_file_line_and_reason(tmp_path, line, reason):
    with pytest.raises(PromptError) as caught:
        load_atlas(_write_set(tmp_path, [_line(1), line]))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'math.jsonl'}, line 2: ")
    assert reason in message
    assert message.endswith(".")
    assert "\n" not in message


def test_an_id_that_comes_twice_is_refused(tmp_path):
    folder = _write_set(tmp_path, [_line(1)])
    manifest = yaml.safe_load((folder / MANIFEST).read_text())
    (folder / "copy").mkdir()
    (folder / "copy" / "math.jsonl").write_bytes((folder / "math.jsonl").read_bytes())
    manifest["files"]["copy/math.jsonl"] = manifest["files"]["math.jsonl"]
    (folder / MANIFEST).write_text(yaml.safe_dump(manifest, sort_keys=False))
    with pytest.raises(PromptError, match=r'copy/math.jsonl, line 1: the id "math-01" was used before .*line 1'):
        load_atlas(folder)


def test_an_altered_file_is_refused_even_if_only_other_categories_are_wanted(tmp_path):
    folder = _write_set(tmp_path, [_line(1)], sha256="0" * 64)
    with pytest.raises(PromptError, match=r"math.jsonl: its sha256 is .* restore the file"):
        load_atlas(folder, split="test")


def test_a_wrong_number_of_prompts_is_refused(tmp_path):
    with pytest.raises(PromptError, match="1 prompts instead of 2"):
        load_atlas(_write_set(tmp_path, [_line(1)], prompts=2))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("name: [", "this is not YAML"), ("name: atlas", 'the key "licence" is missing'), ("", "should be a valid")],
)
def test_a_broken_manifest_is_refused(tmp_path, text, reason):
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(PromptError, match=reason):
        load_atlas(tmp_path)


def test_missing_and_undecodable_files_are_refused(tmp_path):
    with pytest.raises(PromptError, match="No such file"):
        load_atlas(tmp_path)
    folder = _write_set(tmp_path, [_line(1)])
    (folder / "math.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(PromptError, match="not UTF-8"):
        load_atlas(folder)

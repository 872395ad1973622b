import hashlib
import io
import json
import sys
import urllib.error
from types import SimpleNamespace

import pytest

from specatlas.prompts import external
from specatlas.prompts.external import load_mt_bench, load_spec_bench, load_speed_bench
from specatlas.prompts.schema import PromptError


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def question(number, category, *turns):
    return {"question_id": number, "category": category, "turns": list(turns) or ["Hello?"]}


def speed_row(number, category, *turns):
    extra = {"sub_category": "x", "source": "s", "src_id": "1", "difficulty": "easy", "multiturn": len(turns) > 1}
    return question(f"q/{number}", category, *turns) | extra


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for `datasets`: returns prepared rows and remembers what was asked for."""
    stand_in = SimpleNamespace(rows=[], calls=[])

    def load_dataset(*where, **options):
        stand_in.calls.append((where, options))
        if isinstance(stand_in.rows, Exception):
            raise stand_in.rows
        return stand_in.rows

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return stand_in


def test_spec_bench_maps_its_categories_to_its_six_sub_tasks(tmp_path):
    names = ["writing", "humanities", "translation", "summarization", "qa", "math_reasoning", "rag", "math"]
    rows = [question(81 + i, name) | {"reference": ["x"] if i else "y"} for i, name in enumerate(names)]
    prompts = load_spec_bench(write_jsonl(tmp_path / "question.jsonl", rows))
    assert [p.category for p in prompts] == [
        "open_chat",
        "open_chat",
        "translation",
        "summarization",
        "question_answering",
        "math",
        "retrieval_grounded",
        "open_chat",
    ]
    assert prompts[0].id == "open_chat-81"
    assert [p.split for p in prompts if p.category == "open_chat"] == ["tune", "test", "tune"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (question(2, "cooking"), 'no category "cooking"'),
        ({"question_id": 2, "category": "qa"}, 'the key "turns" is missing'),
        (question(2, "qa", " "), "a turn is empty"),
        (question(1, "qa"), r'the id "question_answering-1" was used before \(.*line 1\)'),
    ],
)
def test_a_malformed_spec_bench_line_is_refused(tmp_path, row, reason):
    path = write_jsonl(tmp_path / "question.jsonl", [question(1, "qa"), row])
    with pytest.raises(PromptError, match=rf"question.jsonl, line 2: .*{reason}"):
        load_spec_bench(path)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(PromptError, match="empty"):
        load_spec_bench(write_jsonl(tmp_path / "question.jsonl", []))


def test_fetched_spec_bench_must_have_the_known_content(monkeypatch):
    data = (json.dumps(question(1, "qa")) + "\n").encode()
    monkeypatch.setattr(external.urllib.request, "urlopen", lambda url, timeout: io.BytesIO(data))
    with pytest.raises(PromptError, match="the file has changed"):
        load_spec_bench()
    monkeypatch.setattr(external, "SPEC_BENCH_SHA256", hashlib.sha256(data).hexdigest())
    assert [p.id for p in load_spec_bench()] == ["question_answering-1"]


def test_spec_bench_without_a_network_says_what_to_do(monkeypatch):
    def refuse(url, timeout):
        raise urllib.error.URLError("name not known")

    monkeypatch.setattr(external.urllib.request, "urlopen", refuse)
    with pytest.raises(PromptError, match=r"name not known.*check the network or give a local file"):
        load_spec_bench()


def test_mt_bench_reads_question_jsonl(tmp_path):
    rows = [question(81, "writing", "Write.", "Rewrite."), question(131, "extraction"), question(141, "stem")]
    prompts = load_mt_bench(write_jsonl(tmp_path / "question.jsonl", rows))
    assert [p.id for p in prompts] == ["writing-81", "structured_extraction-131", "stem-141"]
    assert prompts[0].turns == ("Write.", "Rewrite.")


def test_mt_bench_from_the_hub_is_pinned(hub):
    hub.rows = [{"prompt_id": 7, "category": "math", "prompt": ["One?", "Two?"], "reference": []}]
    prompts = load_mt_bench()
    assert [(p.id, p.turns) for p in prompts] == [("math-7", ("One?", "Two?"))]
    assert hub.calls == [((external.MT_BENCH_REPO,), {"split": "train", "revision": external.MT_BENCH_REVISION})]
    assert len(external.MT_BENCH_REVISION) == len(external.SPEED_BENCH_REVISION) == 40


def test_speed_bench_from_the_hub_is_pinned(hub):
    hub.rows = [speed_row(1, "rag"), speed_row(2, "multilingual", "Hallo?", "Und?"), speed_row(3, "rag")]
    prompts = load_speed_bench("qualitative")
    assert [p.id for p in prompts] == ["retrieval_grounded-q_1", "multilingual-q_2", "retrieval_grounded-q_3"]
    assert [p.split for p in prompts] == ["tune", "tune", "test"]
    options = {"split": "test", "revision": external.SPEED_BENCH_REVISION}
    assert hub.calls == [((external.SPEED_BENCH_REPO, "qualitative"), options)]


def test_a_placeholder_of_speed_bench_is_refused_unless_its_category_is_left_out(hub):
    text = f"{external.SPEED_BENCH_PLACEHOLDER} USING SPECDEC_BENCH"
    hub.rows = [speed_row(1, "writing"), speed_row(2, "math", text)]
    with pytest.raises(PromptError, match=r"\(qualitative\), row 2: this row is a placeholder .*prepare_data.py"):
        load_speed_bench("qualitative")
    assert [p.category for p in load_speed_bench("qualitative", categories=["writing"])] == ["writing"]
    with pytest.raises(PromptError, match='no category "cooking": choose among writing, math'):
        load_speed_bench("qualitative", categories=["cooking"])


def test_completed_speed_bench_files_are_read(tmp_path, hub):
    path = write_jsonl(tmp_path / "throughput.jsonl", [speed_row(1, "low_entropy")])
    assert [p.id for p in load_speed_bench(path)] == ["low_entropy-q_1"]
    assert hub.calls == []
    parquet = tmp_path / "throughput.parquet"
    parquet.touch()
    hub.rows = [speed_row(2, "mixed")]
    assert [p.id for p in load_speed_bench(parquet)] == ["mixed-q_2"]
    assert hub.calls[0][0] == ("parquet",)


def test_an_unknown_speed_bench_source_lists_the_configurations(tmp_path):
    with pytest.raises(PromptError, match="choose qualitative, throughput_1k"):
        load_speed_bench(tmp_path / "throughput_4k")


def test_a_failing_hub_says_what_to_do(hub):
    hub.rows = RuntimeError("offline")
    with pytest.raises(
        PromptError, match=r"mt_bench_prompts@\w{7}: could not be loaded \(offline\); check the network"
    ):
        load_mt_bench()


def test_a_missing_datasets_package_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(PromptError, match="package datasets is missing"):
        load_mt_bench()

"""`run`, `peers`, `check`: arguments reach the engine, refusals reach the person."""

import errno
import json

import pytest

from specatlas.cli import main
from specatlas.errors import ContextOverflow, MissingArtifact, ModelSourceError, VocabularyMismatch
from tests.unit.cli.conftest import raiser

ANSWER = {
    "method": "lookup",
    "target": "tiny-llama",
    "ids": [5, 6, 7],
    "text": "so be it",
    "chunks": [2, 1],
    "acceptance_length": 1.5,
    "tokens_per_s": 80.0,
    "speedup": None,
    "verdict": "exact",
}
SINGLE = "specatlas.measure.single"


@pytest.fixture
def requests(stand_in) -> list[dict]:
    """Every request that reaches the engine."""
    seen: list[dict] = []

    def run_single(project, **request) -> dict:
        seen.append(request)
        return ANSWER

    stand_in(SINGLE, run_single=run_single)
    return seen


def test_run_as_json_is_the_contract(cli, requests) -> None:
    options = "--max-new-tokens 3 --temperature 0.5 --seed 7 --dtype float32 --target other --set draft_length=2"
    result = cli("run", "lookup", "--prompt", "Hello", *options.split(), "--json")
    assert result.code == 0
    assert json.loads(result.out) == ANSWER
    assert requests == [
        {
            "slug": "lookup",
            "prompt": "Hello",
            "max_new_tokens": 3,
            "temperature": 0.5,
            "top_k": None,
            "top_p": None,
            "seed": 7,
            "dtype": "float32",
            "target": "other",
            "budget": "smoke",
            "hyperparameters": {"draft_length": 2},
        }
    ]


def test_run_for_people_keeps_the_answer_alone_on_stdout(cli, requests) -> None:
    result = cli("run", "lookup", "--prompt", "Hello")
    assert result.out == "so be it\n"
    assert "acceptance length 1.50" in result.err
    assert requests[0]["target"] == "tiny-llama", "the default configuration's target"


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.txt", "one\n\ntwo\n"), ("p.jsonl", '{"prompt": "one"}\n{"turns": ["two", "more"]}\n')],
)
def test_run_reads_prompts_from_a_file(cli, requests, tmp_path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    result = cli("run", "lookup", "--prompts", tmp_path / name, "--json")
    assert json.loads(result.out) == [ANSWER, ANSWER]
    assert [request["prompt"] for request in requests] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("lokup", "--prompt", "x"), "did you mean lookup?"),
        (("paper_only", "--prompt", "x"), "No code was released."),
        (("lookup",), "Give either --prompt TEXT or --prompts FILE."),
        (("lookup", "--prompt", "x", "--prompts", "y"), "Give either --prompt TEXT or --prompts FILE."),
        (("lookup", "--prompts", "nowhere.txt"), "nowhere.txt: no such file"),
        (("lookup", "--prompts", "bad.jsonl"), "bad.jsonl:1: no prompt"),
        (("lookup", "--prompts", "empty.txt"), "empty.txt: the file has no prompts"),
        (("lookup", "--prompt", "x", "--dtype", "int4"), "--dtype must be"),
        (("lookup", "--prompt", "x", "--set", "draft_length"), "--set takes name=value"),
        (("lookup", "--prompt", "x", "--set", "draft_length=99"), "must lie in [1.0, 16.0], not 99"),
        (("lookup", "--prompt", "x", "--set", "depth=2"), "no hyper-parameter `depth`; it has: draft_length"),
        (("lookup", "--prompt", "x", "--config", "nowhere.yaml"), "nowhere.yaml: no such configuration"),
        (("lookup", "--prompt", "x", "--config", "{"), "--config: not valid JSON"),
    ],
)
def test_run_refuses_before_the_engine_starts(cli, requests, project, arguments: tuple[str, ...], part: str) -> None:
    (project.root / "bad.jsonl").write_text('{"question": "x"}\n')
    (project.root / "empty.txt").write_text("\n")
    cli("run", *arguments, "--json").refused(part)
    assert requests == []


@pytest.mark.parametrize(
    "error",
    [
        ContextOverflow("Prompt and answer need 9000 tokens, but the target has 8192; shorten one of them."),
        VocabularyMismatch("Drafter and target have different vocabularies; choose another drafter."),
        MissingArtifact("results/x does not exist; make it with `specatlas train trained`."),
        ModelSourceError("The hub cannot be reached; fetch the model on another machine."),
    ],
)
def test_the_engines_refusals_are_one_sentence(cli, stand_in, error: Exception) -> None:
    stand_in(SINGLE, run_single=raiser(error))
    cli("run", "lookup", "--prompt", "x", "--json").refused(str(error))


def test_a_full_disk_is_one_sentence(cli, stand_in) -> None:
    stand_in(SINGLE, run_single=raiser(OSError(errno.ENOSPC, "No space left on device", "results/x")))
    cli("run", "lookup", "--prompt", "x").refused("The disk is full at results/x")


def test_a_bug_keeps_its_traceback(project, stand_in) -> None:
    stand_in(SINGLE, run_single=raiser(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["run", "lookup", "--prompt", "x"])


def test_debugging_shows_where_a_refusal_came_from(project, stand_in, monkeypatch) -> None:
    monkeypatch.setenv("SPECATLAS_DEBUG", "1")
    stand_in(SINGLE, run_single=raiser(MissingArtifact("gone")))
    with pytest.raises(MissingArtifact):
        main(["run", "lookup", "--prompt", "x"])


def outcome(passed: bool) -> dict:
    """One method's result in the conformance suite."""
    return {"passed": passed, "checks": {"lossless": {"passed": passed, "detail": None if passed else "differs at 3"}}}


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_check_as_json_is_the_contract(cli, stand_in, passed: bool, code: int) -> None:
    asked = []

    def run_checks(project, slugs) -> dict:
        asked.append(slugs)
        return {slug: outcome(passed or slug == "lookup") for slug in slugs}

    stand_in("specatlas.measure.conformance", run_checks=run_checks)
    result = cli("check", "--all", "--json")
    assert result.code == code
    assert asked == [["lookup", "trained"]], "runnable methods only"
    assert json.loads(result.out) == {"lookup": outcome(True), "trained": outcome(passed)}
    table = cli("check", "trained")
    assert table.code == code
    assert ("FAILED" in table.out) is not passed


def test_check_needs_to_know_what(cli) -> None:
    cli("check").refused("Name the methods to check, or give --all.")
    cli("check", "paper_only").refused("No code was released.")


def test_peers_as_json_is_the_contract(cli, stand_in) -> None:
    row = {
        "mode": "greedy, plain",
        "ours_tokens_per_s": 75.0,
        "theirs_tokens_per_s": 50.0,
        "ratio": 1.5,
        "interval": [1.4, 1.6],
        "identical_ids": True,
    }
    asked = []

    def compare_peers(project, **options) -> list[dict]:
        asked.append(options)
        return [row]

    stand_in("specatlas.measure.peers", compare_peers=compare_peers)
    assert json.loads(cli("peers", "--dtype", "float32", "--json").out) == [row]
    assert asked == [{"target": "tiny-llama", "dtype": "float32"}]
    assert "1.40 … 1.60" in cli("peers").out

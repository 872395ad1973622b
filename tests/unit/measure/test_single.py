"""One answer for the command line."""

import pytest

from specatlas.errors import UnsupportedSampling
from specatlas.measure.single import figures, run_single


def run(project, **changes):
    values = {
        "slug": "prompt_lookup",
        "prompt": "abcabcabc",
        "max_new_tokens": 10,
        "temperature": 0.0,
        "target": "tiny",
    }
    return run_single(project, **(values | {"dtype": "float32"} | changes))


def test_an_answer_has_its_figures(project):
    answer = run(project)
    assert answer["verdict"] == "exact", answer["detail"]
    assert sum(answer["chunks"]) == len(answer["ids"]) - 1
    assert answer["acceptance_length"] == pytest.approx(sum(answer["chunks"]) / len(answer["chunks"]))
    assert answer["tokens_per_s"] > 0 < answer["speedup"]
    assert answer["text"]
    assert (answer["method"], answer["target"]) == ("prompt_lookup", "tiny")
    assert run(project)["ids"] == answer["ids"] == run(project, slug="oracle")["ids"]


def test_what_is_undefined_is_null(project):
    answer = run(project, max_new_tokens=1)
    assert len(answer["ids"]) == 1
    assert answer["chunks"] == []
    assert answer["acceptance_length"] is answer["tokens_per_s"] is answer["speedup"] is None
    assert figures([]) == {"acceptance_length": None, "tokens_per_s": None, "speedup": None}


def test_chat_template_is_optional(project):
    assert run(project, prompt="0123456789abc", chat=True)["ids"] != []
    assert run(project, prompt="0123456789abc", chat=False)["ids"] != []


def test_refusals_reach_the_caller(project):
    with pytest.raises(UnsupportedSampling):
        run(project, slug="oracle", temperature=1.0)

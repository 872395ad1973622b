"""Peers: the figures on hand-made times, and the whole comparison with `transformers` on a tiny model."""

import json

import pytest

from specatlas.measure.peers import compare_peers
from specatlas.measure.peers.answers import Mode, Timing, interleaved
from specatlas.measure.peers.compare import row_of
from specatlas.measure.peers.early_layers import write_early_layers


def test_figures_are_ratios_of_sums():
    row = row_of("plain", [Timing((10, 10**9), (10, 2 * 10**9)), Timing((30, 10**9), (30, 2 * 10**9))])
    assert (row["ours_tokens_per_s"], row["theirs_tokens_per_s"], row["ratio"]) == (20.0, 10.0, 2.0)
    assert row["interval"]["low"] <= 2.0 <= row["interval"]["high"]
    assert row_of("none", [])["ratio"] is None
    assert row_of("one", [Timing((10, 10), (10, 10))])["interval"] is None


def test_sides_take_turns():
    calls = []
    sides = [lambda prompt, name=name: calls.append((name, prompt[0])) or [1] for name in ("ours", "theirs")]
    timings = interleaved(Mode("m", *sides), [[1], [2]], 2, lambda: None)
    assert calls[2:6] == [("ours", 1), ("theirs", 1), ("theirs", 2), ("ours", 2)]
    assert calls[6:] == [("theirs", 1), ("ours", 1), ("ours", 2), ("theirs", 2)]
    assert [timing.ours[0] for timing in timings] == [2, 2]


def test_early_layers_are_the_targets(project, tmp_path):
    folder = write_early_layers(project.models / "tiny", tmp_path / "draft")
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 1


def test_transformers_beside_ours(project, monkeypatch):
    from tests.unit.measure.world import FakeEncoder

    monkeypatch.setattr("specatlas.measure.peers.compare.load_encoder", FakeEncoder)
    prompts = [[1, 2, 3, 1, 2, 3, 1, 2], [9, 8, 7]]
    rows = compare_peers(project, target="tiny", dtype="float32", prompts=prompts, max_new_tokens=8, cycles=1)
    assert [row["mode"] for row in rows[:3]] == ["plain", "prompt lookup", "assisted"]
    for row in rows[:3]:
        assert row["identical_ids"], row["mode"]
        assert row["ratio"] == pytest.approx(row["ours_tokens_per_s"] / row["theirs_tokens_per_s"])
    assert rows[3]["ratio"] is None
    assert rows[3]["reason"]


def test_llama_cpp_where_it_is_installed(project, tmp_path, monkeypatch):
    import sys
    from types import SimpleNamespace

    from specatlas.engine.stopping import StopConditions
    from specatlas.measure.peers import llama_cpp

    class Llama:
        def __init__(self, **options):
            self.options = options

        def reset(self):
            pass

        def generate(self, tokens, **options):
            yield from [5, 6, 7, 8]

    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: object())
    assert "bfloat16 only" in llama_cpp.why_not(tmp_path, "float32")
    assert "convert_hf_to_gguf" in llama_cpp.why_not(tmp_path, "bfloat16")
    (tmp_path / llama_cpp.GGUF).write_bytes(b"")
    assert llama_cpp.why_not(tmp_path, "bfloat16") is None
    monkeypatch.setitem(sys.modules, "llama_cpp", SimpleNamespace(Llama=Llama))
    assert llama_cpp.plain(tmp_path, StopConditions(3), 64, 1)([1]) == [5, 6, 7]
    assert llama_cpp.plain(tmp_path, StopConditions(9, frozenset({6})), 64, 1)([1]) == [5, 6]

import hashlib
import json
import random
import subprocess
import sys
from datetime import timedelta

import pytest
from rich.console import Console

from specatlas.analysis.board import board_from_folder, boards_to_json, build_boards, read_boards, write_boards
from specatlas.analysis.evidence import CurrentHashes, current_hashes
from specatlas.analysis.rows import draft_share, outside_model_share
from specatlas.analysis.schema import Boards
from specatlas.analysis.tables import board_markdown, board_table
from specatlas.errors import RecordError
from specatlas.records.schema import PhaseTimes, Record, UnitStatus, Verdict
from specatlas.records.store import write_record

from .factory import CREATED, Unit, catalog, failed_record, hashes, plain, provenance, sample, steps

SLUGS = ("eagle", "layerskip", "lookup", "medusa", "pld")


def records() -> list[Record]:
    """A board of everything: ranked, control, lossy, incomplete, wrong, failed."""
    return [
        Unit(method="lookup", speedup=1.5, seed=1).record(),
        Unit(method="medusa", speedup=2.4, seed=2).record(),
        Unit(method="pld", speedup=1.52, seed=3).record(),
        Unit(method="layerskip", speedup=2.0, seed=4, suite=(("coding", 6),)).record(n_prompts_in_set=12),
        Unit(method="oracle", speedup=2.8, seed=5).record(),
        Unit(method="typical", speedup=2.9, seed=6, verdict=Verdict.LOSSY).record(),
        failed_record("eagle"),
    ]


def pathed(items: list[Record]) -> list[tuple[str, Record]]:
    return [(item.unit.path, item) for item in items]


def build(*items: Record, slugs=SLUGS) -> Boards:
    return build_boards(pathed(list(items)), catalog(*slugs), hashes(*slugs))


def only_row(record: Record, slugs=SLUGS):
    return build(record, slugs=slugs).boards[0].rows[0]


def test_rows_are_sorted_and_ranked():
    (board,) = build(*records()).boards
    assert [row.method for row in board.rows] == ["medusa", "lookup", "pld", "oracle", "typical", "layerskip", "eagle"]
    assert [row.rank for row in board.rows] == [(1, 1), (2, 3), (2, 3), None, None, None, None]
    assert board.n_prompts == 12
    assert [row.unranked_reason.split(":")[0] for row in board.rows[3:]] == [
        "control",
        "lossy",
        "incomplete",
        "failed",
    ]


def test_a_row_without_numbers():
    row = only_row(failed_record("eagle", UnitStatus.OUT_OF_MEMORY))
    assert row.status is UnitStatus.OUT_OF_MEMORY
    assert row.reason == "IndexError: out of range"
    assert row.unranked_reason == "out of memory: IndexError: out of range"
    assert (row.speedup, row.acceptance_length, row.tokens_per_s, row.prefill_ms, row.verdict) == (None,) * 5
    assert (row.by_category, row.flags, row.n_prompts) == ((), (), 0)


def test_figures_of_a_row():
    """Recipe: drafts of 4, accepted 3, 0, 2, 4, 1: 15 tokens in 5 steps; 12 prompts, 2 cycles."""
    row = only_row(Unit(method="lookup", speedup=2.0, spread=0.0, noise=1e-6).record())
    assert row.speedup.ratio_of_sums == pytest.approx(2.0, rel=1e-4)
    assert row.speedup.geometric_mean == pytest.approx(2.0, rel=1e-4)
    assert row.acceptance_length == 3.0
    assert row.acceptance_rate == 0.5
    assert row.n_tokens == 15 * 24
    assert row.target_passes_saved == pytest.approx(2 / 3, rel=1e-5)
    assert row.cost_model_speedup == pytest.approx(15 * 10 / (5 * 12 + 5 * 1), rel=1e-5)
    assert row.tokens_per_s == pytest.approx(200, rel=1e-3)
    assert row.baseline_tokens_per_s == pytest.approx(100, rel=1e-3)
    assert row.prefill_ms == 20.0
    assert row.draft_share == pytest.approx(0.2, rel=1e-3)
    assert row.outside_model_share == pytest.approx(1 - 0.5 - 5 / 75, rel=1e-3)
    assert row.acceptance_histogram == {1: 24, 2: 24, 3: 24, 4: 24, 5: 24}
    assert [(c.category, c.n_prompts, c.acceptance_length) for c in row.by_category] == [
        ("coding", 6, 3.0),
        ("writing", 6, 3.0),
    ]


def test_json_has_the_contract_names():
    row = json.loads(boards_to_json(build(*records())))["boards"][0]["rows"][0]
    assert row["class"] == "draft_centric"
    assert "method_class" not in row
    assert row["category"] == "draft_centric/retrieval"
    assert row["speedup"]["interval"].keys() == {"low", "high"}
    assert row["acceptance_by_position"][0].keys() == {"position", "drafted", "reached", "accepted"}
    assert row["rank"] == [1, 1]


def test_same_records_give_the_same_bytes_in_any_order():
    items = records()
    first = boards_to_json(build(*items))
    random.Random(1).shuffle(items)
    reread = [Record.model_validate_json(item.model_dump_json()) for item in items]
    assert boards_to_json(build(*reread)) == first


def test_same_bytes_from_any_folder(tmp_path):
    texts = []
    for name in ("one", "two"):
        for record in records():
            write_record(tmp_path / name, record)
        boards = board_from_folder(tmp_path / name, catalog(*SLUGS), hashes(*SLUGS))
        texts.append(boards_to_json(boards))
    assert texts[0] == texts[1] == boards_to_json(build(*records()))


def test_round_trip(tmp_path):
    boards = build(*records())
    write_boards(tmp_path / "board.json", boards)
    again = read_boards(tmp_path / "board.json")
    assert again == boards
    assert boards_to_json(again) == (tmp_path / "board.json").read_text()


@pytest.mark.parametrize("text", [None, "", "{", '{"boards": [{}]}', '{"boards": [], "extra": 1}'])
def test_bad_files_are_refused(tmp_path, text):
    path = tmp_path / "board.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordError, match=r"board\.json"):
        read_boards(path)


def test_record_hash_is_that_of_the_file(tmp_path):
    path = write_record(tmp_path, records()[0])
    row = board_from_folder(tmp_path, catalog(*SLUGS), hashes(*SLUGS)).boards[0].rows[0]
    assert row.record_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert row.record == "cpu2/tiny/atlas/greedy/lookup.json"


def test_one_board_for_each_machine_target_prompts_and_settings():
    first = records()[0]
    others = [
        first.model_copy(update={"unit": first.unit.model_copy(update={key: "other"})})
        for key in ("machine", "target", "prompt_set", "settings")
    ]
    keys = [(b.machine, b.target, b.prompt_set, b.settings) for b in build(first, *others).boards]
    assert len(keys) == 5
    assert keys == sorted(keys)


def test_no_records_make_no_boards():
    assert boards_to_json(build()) == '{\n  "boards": []\n}\n'


def test_a_method_without_a_card_is_withdrawn_not_a_crash():
    row = only_row(Unit(method="gone").record())
    assert ([flag.code for flag in row.flags], row.method_class, row.ranked) == (["withdrawn"], "withdrawn", False)
    assert row.unranked_reason == "flagged: withdrawn"
    assert only_row(failed_record("gone")).name == "gone"


def test_the_later_record_of_a_unit_counts():
    old = Unit(method="lookup", speedup=1.2).record()
    new = Unit(method="lookup", speedup=1.8).record(
        provenance=provenance("lookup", created=CREATED + timedelta(days=1))
    )
    assert build(new, old) == build(new)


@pytest.mark.parametrize(
    ("unit", "reason"),
    [
        (Unit(method="lookup", verdict=Verdict.WRONG), "wrong"),
        (Unit(method="lookup", verdict=Verdict.NOT_TESTED), "not tested"),
        (Unit(method="typical", verdict=Verdict.NOT_TESTED), "lossy"),
        (Unit(method="lookup", speedup=3.6, spread=0.01), "flagged"),
        (Unit(method="random_draft"), "control"),
    ],
)
def test_unranked_reasons(unit, reason):
    row = only_row(unit.record())
    assert (row.ranked, row.rank) == (False, None)
    assert row.unranked_reason.startswith(reason)


@pytest.mark.parametrize("verdict", [Verdict.EXACT, Verdict.NEAR_TIE, Verdict.DISTRIBUTION])
def test_lossless_verdicts_compete(verdict):
    row = only_row(Unit(method="lookup", verdict=verdict).record())
    assert (row.ranked, row.rank, row.lossless) == (True, (1, 1), True)


def test_answers_of_one_token_leave_nothing_to_time():
    samples = tuple(sample(plain(0), arm=arm, prompt_id=str(i)) for i in range(3) for arm in ("method", "baseline"))
    row = only_row(Unit(method="lookup").record(samples=samples, n_prompts_in_set=3))
    assert row.speedup is None
    assert row.unranked_reason.startswith("nothing to time")
    assert row.by_category[0].speedup is None
    assert row.n_prompts == 3


def test_the_oracle_of_the_board_bounds_its_rows():
    rows = build(
        Unit(method="oracle", speedup=2.0, seed=1).record(), Unit(method="lookup", speedup=2.8, seed=2).record()
    )
    assert [flag.code for flag in rows.boards[0].rows[0].flags] == ["above_oracle"]


def test_the_odd_one_out_is_flagged_not_the_others():
    odd = Unit(method="pld", seed=3).record(
        provenance=provenance("pld", created=CREATED + timedelta(days=9), prompts_sha256="0" * 64)
    )
    (board,) = build(*records()[:2], odd).boards
    assert [row.method for row in board.rows if row.flags] == ["pld"]
    assert board.rows[-1].method == "pld"


def test_stale_rows_stay_ranked():
    boards = build_boards(pathed(records()[:1]), catalog(*SLUGS), CurrentHashes("b" * 64, {}))
    row = boards.boards[0].rows[0]
    assert ([flag.code for flag in row.flags], row.rank) == (["stale"], (1, 1))


def test_current_hashes_are_the_catalog_s(tmp_path):
    known = catalog("lookup")
    assert current_hashes(known, "h").methods.keys() == known.methods.keys()


def test_shares_of_time():
    phases = PhaseTimes(draft=20, verify=50, accept=5, observe=10)
    measured = sample(steps([1]), decode_ns=100, draft_passes=2, phases=phases)
    unmeasured = sample(steps([1]), decode_ns=900)
    assert draft_share([measured, unmeasured]) == 0.3
    assert outside_model_share([measured, unmeasured], 5.0) == pytest.approx(0.4)
    assert outside_model_share([measured], None) is None
    assert outside_model_share([measured], 1000.0) == 0.0
    assert draft_share([unmeasured]) is outside_model_share([unmeasured], 5.0) is None


def test_terminal_table_shows_every_row():
    console = Console(width=160)
    with console.capture() as capture:
        console.print(board_table(build(*records()).boards[0]))
    text = capture.get()
    assert "tiny on cpu2: atlas (12 prompts), greedy" in text
    assert "2–3" in text
    assert "failed: IndexError: out of range" in text
    for record in records():
        assert record.unit.method in text


def test_table_cells_are_not_markup():
    broken = failed_record("eagle").model_copy(update={"reason": "[red]list[int] | None"})
    board = build(broken).boards[0]
    console = Console(width=200)
    with console.capture() as capture:
        console.print(board_table(board))
    assert "[red]list[int] | None" in capture.get()
    assert "[red]list[int] \\| None" in board_markdown(board)


def test_markdown_is_a_table():
    lines = board_markdown(build(*records()).boards[0]).splitlines()
    assert lines[0] == "**tiny on cpu2: atlas (12 prompts), greedy**"
    assert lines[2].startswith("| rank | method | class | speedup |")
    assert len(lines) == 4 + 7
    assert {line.count("|") for line in lines[2:]} == {10}
    assert lines[4].startswith("| 1 | medusa | draft_centric | 2.")


def test_analysis_imports_no_torch():
    code = (
        "import pkgutil, sys, importlib, specatlas.analysis as a\n"
        "for m in pkgutil.iter_modules(a.__path__): importlib.import_module('specatlas.analysis.' + m.name)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

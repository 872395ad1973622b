"""`board`, `status`, `publish`, `doctor`: records on disk become answers."""

import json
from datetime import timedelta

import pytest

from specatlas.archive import all_records, iterate_published
from specatlas.catalog.discovery import load_catalog
from specatlas.cli.artifact_failure import record_failure
from specatlas.errors import RecordError
from specatlas.records.schema import Exactness, Record, UnitKey, UnitStatus, Verdict
from specatlas.records.store import write_record
from tests.unit.analysis.factory import CREATED, HARNESS, Unit, failed_record, make_record, provenance
from tests.unit.cli.conftest import raiser


@pytest.fixture(autouse=True)
def measuring(stand_in) -> None:
    """Stand-ins for what tells the current harness and machine."""
    stand_in("specatlas.measure.hashes", harness_sha256=lambda: HARNESS)
    stand_in("specatlas.measure.environment", machine_name=lambda config: "cpu2")


def measured(project, **changes) -> Record:
    """A record of `lookup` as the current sources would make it."""
    sha = load_catalog(project.methods)["lookup"].source_sha256
    facts = {"method_sha256": sha, **changes.pop("facts", {})}
    return make_record(Unit("lookup", changes={"provenance": provenance("lookup", **facts), **changes}))


def write(project, record: Record) -> None:
    """Writes a local record."""
    write_record(project.results / "records", record)


def test_board_ranks_records_and_keeps_failures(cli, project) -> None:
    write(project, measured(project))
    write(project, failed_record("trained"))
    result = cli("board", "--json")
    assert result.code == 0
    boards = json.loads(result.out)["boards"]
    rows = {row["method"]: row for row in boards[0]["rows"]}
    assert rows["lookup"]["rank"] == [1, 1]
    assert rows["trained"]["status"] == "failed"
    assert rows["trained"]["speedup"] is None
    assert rows["lookup"]["record"].startswith("results/records/cpu2/")
    assert json.loads((project.results / "board.json").read_text())["boards"] == boards
    table = cli("board", "--show").out
    assert "failed: IndexError: out of range" in table


def test_board_without_records_is_empty(cli) -> None:
    result = cli("board")
    assert result.code == 0
    assert "There are no records yet" in result.err


def test_a_broken_record_is_named(cli, project) -> None:
    write(project, measured(project))
    path = next((project.results / "records").rglob("*.json"))
    path.write_text(path.read_text().replace('"status":"ok"', '"status":"fine"'))
    cli("board").refused("lookup.json: status:", "measure the unit again")


def test_publish_only_grows_and_the_board_shows_the_newest(cli, project) -> None:
    write(project, measured(project))
    (first,) = json.loads(cli("publish", "--json").out)
    assert first["outcome"] == "published"
    assert first["target"].startswith("data/results/cpu2/tiny/atlas/greedy/lookup/2026-01-31-")
    (again,) = json.loads(cli("publish", "--json").out)
    assert (again["outcome"], again["target"]) == ("already there", first["target"])
    later = measured(project, facts={"created": CREATED + timedelta(days=1)})
    write(project, later)
    (second,) = json.loads(cli("publish", "--json").out)
    assert second["target"] != first["target"]
    assert (project.root / first["target"]).is_file()
    assert len(list(iterate_published(project.published))) == 2
    (project.results / "records" / later.unit.path).unlink()
    (row,) = json.loads(cli("board", "--json").out)["boards"][0]["rows"]
    assert row["record"] == second["target"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"facts": {"method_sha256": "0" * 64}}, "the method's sources have changed"),
        ({"facts": {"harness_sha256": "0" * 64}}, "the measuring modules have changed"),
        ({"facts": {"dirty": True}}, "uncommitted changes"),
        ({"exactness": Exactness(verdict=Verdict.WRONG, detail="differs at 3")}, "the exactness gate says wrong"),
    ],
)
def test_publish_refuses_what_nobody_could_repeat(cli, project, changes: dict, reason: str) -> None:
    write(project, measured(project, **changes))
    (outcome,) = json.loads(cli("publish", "--json").out)
    assert outcome["outcome"] == "refused"
    assert reason in outcome["reason"]
    assert not project.published.exists()
    assert reason in cli("publish").out


def test_dirty_records_can_be_published_on_purpose(cli, project) -> None:
    write(project, measured(project, facts={"dirty": True}))
    (outcome,) = json.loads(cli("publish", "--allow-dirty", "--json").out)
    assert outcome["outcome"] == "published"


def test_an_edited_published_record_is_found(cli, project) -> None:
    write(project, measured(project))
    cli("publish")
    (path,) = project.published.rglob("*.json")
    path.write_text(path.read_text().replace("made-up cpu", "better cpu"))
    with pytest.raises(RecordError, match="changed after publishing"):
        list(all_records(project))


def test_status_says_what_is_missing_and_why(cli, project) -> None:
    unit = {"machine": "cpu2", "target": "tiny-llama", "prompt_set": "atlas-smoke", "settings": "greedy-fp32"}
    write(project, failed_record("lookup").model_copy(update={"unit": UnitKey(**unit, method="lookup")}))
    log = project.results / "logs/artifact/tiny-llama/smoke/trained.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1\n\nKilled by the system\n")
    states = {(state["kind"], state["name"]): state for state in json.loads(cli("status", "--json").out)}
    assert [kind for kind, _ in states] == ["fetch", "corpus", "artifact", "measure", "measure", "board", "site"]
    assert states["measure", "greedy-fp32/lookup"]["state"] == "failed"
    assert states["measure", "greedy-fp32/lookup"]["reason"] == "IndexError: out of range"
    assert states["artifact", "trained"]["log_tail"] == ["step 1", "Killed by the system"]
    assert states["measure", "greedy-fp32/trained"]["reason"] == "not run yet"
    assert "Killed by the system" in cli("status").out


def test_status_shows_a_failed_training(cli, project) -> None:
    record_failure(
        project.artifact("tiny-llama", "smoke", "trained"), ZeroDivisionError("division by zero"), UnitStatus.FAILED
    )
    states = {(state["kind"], state["name"]): state for state in json.loads(cli("status", "--json").out)}
    assert states["artifact", "trained"]["state"] == "failed"
    assert states["artifact", "trained"]["reason"] == "division by zero"


def test_status_refuses_a_wrong_configuration(cli, project) -> None:
    config = project.root / "workflow/config/default.yaml"
    config.write_text(config.read_text().replace("cycles:", "cycle:"))
    cli("status").refused("settings.greedy-fp32.cycle: Extra inputs are not permitted")


def test_doctor_works_offline(cli, monkeypatch) -> None:
    monkeypatch.setattr("socket.create_connection", raiser(TimeoutError("timed out")))
    result = cli("doctor", "--json")
    findings = {finding["check"]: finding for finding in json.loads(result.out)}
    assert findings["hub"]["outcome"] == "note"
    assert findings["model tiny-llama"]["outcome"] == "note"
    assert findings["python"]["outcome"] == "ok"
    assert {"torch", "cores", "memory", "load", "disk", "browser", "checkout"} <= set(findings)
    assert result.code == (1 if any(finding["outcome"] == "fail" for finding in findings.values()) else 0)


def test_doctor_names_a_broken_checkout(cli, project, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (project.methods / "taxonomy.yaml").write_text("classes: 3\n")
    result = cli("doctor")
    assert result.code == 1
    assert "taxonomy.yaml" in result.out

"""What a run has and lacks, job by job, read from files alone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specatlas.errors import RecordError
from specatlas.plan import Plan, models_of
from specatlas.records.schema import UnitStatus
from specatlas.records.store import read_record

TAIL_LINES = 5


@dataclass(frozen=True)
class JobState:
    """One job of the DAG.

    Attributes:
        kind: `fetch`, `corpus`, `artifact`, `measure`, `board` or `site`.
        name: Model, corpus, method, `<settings>/<method>`, or empty.
        state: `done`, `failed`, `refused`, `out_of_memory`, `broken` or `missing`.
        reason: Of anything but `done`.
        log_tail: Last lines of the job's log, where there is no record to say why.
    """

    kind: str
    name: str
    state: str
    reason: str | None = None
    log_tail: tuple[str, ...] = ()


def job_states(plan: Plan) -> list[JobState]:
    """Every job of the run, in the order of the DAG."""
    return list(_states(plan))


def _states(plan: Plan) -> Iterator[JobState]:
    config, logs = plan.config, plan.project.results / "logs"
    for model in models_of(config):
        yield _file_state("fetch", model, [plan.model(model)], logs / "fetch" / f"{model}.log")
    makers = sorted({slug for method in plan.methods for slug in method.card.needs.artifacts})
    if any(plan.corpus in plan.artifact_inputs(slug) for slug in makers):
        log = logs / "corpus" / config.target / f"{config.corpus.name}.log"
        yield _file_state("corpus", config.corpus.name, [plan.corpus], log)
    for slug in makers:
        log = logs / "artifact" / config.target / config.budget.name / f"{slug}.log"
        yield _artifact_state(slug, plan.artifact(slug), log)
    for settings in config.settings:
        for slug in plan.slugs:
            path = Path(plan.record(settings, slug))
            log = logs / "measure" / path.relative_to(plan.project.results / "records").with_suffix(".log")
            yield _record_state(f"{settings}/{slug}", path, log)
    yield _file_state("board", "", [str(plan.project.results / "board.json")], logs / "board.log")
    yield _file_state("site", "", [str(plan.project.root / "site" / "public" / "index.html")], logs / "site.log")


def _file_state(kind: str, name: str, files: list[str], log: Path) -> JobState:
    if all(Path(file).is_file() for file in files):
        return JobState(kind, name, "done")
    return _missing(kind, name, log)


def _artifact_state(slug: str, files: list[str], log: Path) -> JobState:
    state = _file_state("artifact", slug, files, log)
    if state.state != "done":
        return state
    report = json.loads(Path(files[-1]).read_text(encoding="utf-8"))
    if report.get("status") in set(UnitStatus) - {UnitStatus.OK}:
        return JobState("artifact", slug, report["status"], report["reason"])
    return state


def _record_state(name: str, path: Path, log: Path) -> JobState:
    if not path.is_file():
        return _missing("measure", name, log)
    try:
        record = read_record(path)
    except RecordError as error:
        return JobState("measure", name, "broken", str(error))
    if record.status is UnitStatus.OK:
        return JobState("measure", name, "done")
    return JobState("measure", name, record.status.value, record.reason)


def _missing(kind: str, name: str, log: Path) -> JobState:
    if not log.is_file():
        return JobState(kind, name, "missing", "not run yet")
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return JobState(kind, name, "missing", "its last run left no result; its log ends:", tuple(lines[-TAIL_LINES:]))

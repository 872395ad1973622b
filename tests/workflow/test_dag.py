"""The real Snakefile in a temporary checkout: what each change costs, and what failures leave."""

import shutil
import time
from itertools import pairwise

import pytest

from tests.workflow.checkout import Checkout

pytestmark = pytest.mark.workflow
ALL_RECORDS = {"plain", "alpha", "alpha2", "searched"}
LAST = {"board": 1, "site": 1, "all": 1}


def test_first_run_makes_everything_one_heavy_job_at_a_time(checkout: Checkout) -> None:
    run = checkout.snakemake(FAKE_SECONDS="0.1")
    assert run.code == 0, run.text
    calls = checkout.calls()
    assert sorted(name for command, name, *_ in calls if command == "measure") == sorted(ALL_RECORDS)
    assert [name for command, name, *_ in calls if command == "train"].count("alpha") == 1
    times = sorted((start, end) for _, _, start, end in calls)
    assert all(end <= start for (_, end), (start, _) in pairwise(times)), "jobs overlapped"
    assert (checkout.root / "site/public/index.html").is_file()
    start = time.monotonic()
    assert "Nothing to be done" in checkout.snakemake().text
    assert time.monotonic() - start < 15
    assert checkout.calls() == []


def test_adding_a_method_schedules_only_its_own_jobs(finished: Checkout) -> None:
    finished.add_method("newcomer")
    run = finished.snakemake("-n")
    assert run.plan == {"measure": 1, **LAST}
    assert run.jobs("measure") == {"newcomer"}
    shutil.rmtree(finished.root / "methods/draft_centric/newcomer")
    assert finished.snakemake("-n").plan == {}


def test_editing_a_method_redoes_its_artifact_and_whoever_borrows_it(finished: Checkout) -> None:
    finished.edit("methods/model_centric/alpha/method.py")
    run = finished.snakemake("-n")
    assert run.jobs("artifact") == {"alpha"}
    assert run.jobs("measure") == {"alpha", "alpha2"}


def test_the_prose_of_a_card_trains_nothing(finished: Checkout) -> None:
    finished.edit("methods/model_centric/alpha/method.yaml")
    run = finished.snakemake("-n")
    assert run.plan == {"measure": 1, **LAST}
    assert run.jobs("measure") == {"alpha"}


@pytest.mark.parametrize(
    ("path", "plan"),
    [
        ("site/templates/page.j2", {"site": 1, "all": 1}),
        ("workflow/specatlas/analysis/ranking.py", LAST),
        ("workflow/specatlas/cli/status.py", {}),
    ],
)
def test_pages_and_analysis_cost_no_measuring(finished: Checkout, path: str, plan: dict[str, int]) -> None:
    finished.edit(path)
    assert finished.snakemake("-n").plan == plan


def test_a_new_harness_measures_everything_again_and_trains_nothing(finished: Checkout) -> None:
    hashes = finished.root / "workflow/specatlas/measure/hashes.py"
    hashes.write_text(hashes.read_text().replace("harness-1", "harness-2"))
    run = finished.snakemake("-n")
    assert run.plan == {"measure": 4, **LAST}
    assert run.jobs("measure") == ALL_RECORDS


def test_a_configuration_change_repeats_only_what_depends_on_it(finished: Checkout) -> None:
    config = finished.root / "workflow/config/default.yaml"
    text = config.read_text()
    config.write_text(text.replace("name: smoke\ntarget", "name: renamed\ntarget"))
    assert finished.snakemake("-n").plan == {}, "the run's name is in no result"
    config.write_text(text.replace("trials: 2", "trials: 3"))
    assert finished.snakemake("-n").jobs("measure") == {"alpha", "alpha2", "searched"}
    config.write_text(text.replace("cycles: 1", "cycles: 2"))
    run = finished.snakemake("-n")
    assert run.plan == {"measure": 4, **LAST}


def test_a_lost_record_is_measured_again_alone(finished: Checkout) -> None:
    finished.record("plain").unlink()
    run = finished.snakemake()
    assert run.code == 0
    assert [call[:2] for call in finished.calls()] == [["measure", "plain"], ["board", ""], ["site", ""]]


def test_a_failed_unit_is_a_row_and_the_board_and_site_follow(finished: Checkout) -> None:
    finished.edit("methods/control/plain/method.py")
    run = finished.snakemake(FAKE_FAILS="plain")
    assert run.code == 0
    assert '{"method": "plain", "status": "failed"}' in (finished.root / "site/public/index.html").read_text()
    assert finished.snakemake("-n").plan == {}, "a failure is data: it is not tried again until something changes"


def test_a_broken_machine_fails_the_run_and_the_next_run_repairs_it(finished: Checkout) -> None:
    finished.record("plain").unlink()
    finished.edit("methods/draft_centric/searched/method.yaml")
    broken = finished.snakemake(FAKE_BREAKS="plain")
    assert broken.code != 0
    assert "the machine is broken" in broken.text, "the log of a failed job is shown"
    assert ["measure", "searched"] in [call[:2] for call in finished.calls()], "--keep-going measures the others"
    again = finished.snakemake()
    assert again.code == 0
    assert [call[:2] for call in finished.calls()] == [["measure", "plain"], ["board", ""], ["site", ""]]


def test_a_site_that_cannot_be_built_is_built_again(finished: Checkout) -> None:
    finished.edit("site/templates/page.j2")
    assert finished.snakemake(FAKE_BREAKS="site").code != 0
    assert finished.snakemake("-n").plan == {"site": 1, "all": 1}

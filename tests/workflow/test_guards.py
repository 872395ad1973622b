"""What the Snakefile refuses, and in how many words."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.workflow.checkout import PROFILE, ROOT, Checkout

pytestmark = pytest.mark.workflow
PROFILES = ("cpu", "gpu", "slurm")


def last_line(text: str) -> str:
    """The last line that is not empty."""
    return text.strip().splitlines()[-1]


@pytest.mark.parametrize("arguments", [(), ("--cores", "2", "--workflow-profile", "typo")])
def test_without_a_profile_one_sentence_says_what_to_type(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    run = checkout.snakemake(*arguments, profile=False)
    assert run.code != 0
    assert last_line(run.text).startswith("Timing jobs must run one at a time, so give a profile: type `snakemake ")
    assert "Traceback" not in run.text
    assert checkout.calls() == []


def test_plans_and_lint_need_no_profile(checkout: Checkout) -> None:
    assert checkout.snakemake("-n", profile=False).plan["measure"] == 4
    lint = checkout.snakemake("--lint", profile=False)
    assert lint.code == 0, lint.text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("budget:", "budgets: 3\nbudget:", "configuration: budgets: Extra inputs are not permitted"),
        ("cycles: 1", "cycles: 0", "configuration: settings.greedy-fp32.cycles: "),
        (
            "target: tiny-llama",
            "target: tiny-lama",
            "data/models.yaml has no model 'tiny-lama'; did you mean tiny-llama",
        ),
        ("methods: all", "methods: [plian]", "No method is called `plian`; did you mean plain?"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(checkout: Checkout, old: str, new: str, expected: str) -> None:
    config = checkout.root / "workflow/config/wrong.yaml"
    config.write_text((ROOT / "workflow/config/smoke.yaml").read_text().replace(old, new, 1))
    run = checkout.snakemake("-n", "--configfile", str(config))
    assert run.code != 0
    assert last_line(run.text).startswith(expected)
    assert "Traceback" not in run.text


def test_a_broken_card_is_one_sentence(checkout: Checkout) -> None:
    card = checkout.root / "methods/control/plain/method.yaml"
    card.write_text(card.read_text().replace("draft_shape: chain", "draft_shape: knot"))
    run = checkout.snakemake("-n")
    assert run.code != 0
    assert "methods/control/plain/method.yaml: draft_shape:" in last_line(run.text)


def test_a_configuration_without_name_is_laid_over_the_default(checkout: Checkout) -> None:
    (checkout.root / "part.yaml").write_text("methods: [plain]\n")
    assert checkout.snakemake("-n", "--configfile", "part.yaml").jobs("measure") == {"plain"}


def test_a_named_configuration_stands_alone(checkout: Checkout) -> None:
    run = checkout.snakemake("-n", "--configfile", "workflow/config/full.yaml")
    assert "greedy-bf16/plain.json" in run.text
    assert "sampled-bf16/plain.json" in run.text
    assert "greedy-fp32" not in run.text, "settings of the default configuration must not leak in"


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_limit_timing_and_survive_kills(checkout: Checkout, name: str) -> None:
    profile = yaml.safe_load((ROOT / f"workflow/profiles/{name}/profile.yaml").read_text())
    assert profile["resources"]["machine"] == (8 if name == "slurm" else 1)
    assert profile["rerun-incomplete"] is True
    assert profile["keep-going"] is True
    run = checkout.snakemake("-n", "--workflow-profile", f"workflow/profiles/{name}", profile=False)
    assert run.code == 0, run.text
    assert f"Using workflow specific profile workflow/profiles/{name}" in run.text
    assert "machine=1" in run.text
    if name == "slurm":
        assert "gpu=1" in run.text
        assert "slurm_extra=--exclusive" in run.text


def test_a_cluster_needs_the_name_of_its_machine(checkout: Checkout) -> None:
    pytest.importorskip("snakemake_executor_plugin_slurm")
    run = checkout.snakemake("--workflow-profile", "workflow/profiles/slurm", profile=False)
    assert run.code != 0
    assert "add `--config machine=NAME`" in run.text


def test_a_killed_run_continues_where_it_was(checkout: Checkout) -> None:
    command = [sys.executable, "-m", "snakemake", *PROFILE]
    log = Path(checkout.environment["FAKE_LOG"])
    killed = subprocess.Popen(
        command,
        cwd=checkout.root,
        env=checkout.environment | {"FAKE_SECONDS": "0.3"},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (log.exists() and '"measure"' in log.read_text()):
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    # Snakemake may not have heard of the last job's end, and then rightly repeats it.
    before = {tuple(call[:2]) for call in checkout.calls()[:-1]}
    assert ("fetch", "tiny-llama") in before
    real = [sys.executable, "-c", "from specatlas.cli import main; main(['unlock'])"]
    unlocked = subprocess.run(
        real, cwd=checkout.root, env=checkout.environment, capture_output=True, text=True, check=True
    )
    assert "removing its lock" in unlocked.stderr
    run = checkout.snakemake()
    assert run.code == 0, run.text
    after = {tuple(call[:2]) for call in checkout.calls()}
    assert not {call for call in before if call[0] in {"fetch", "train", "measure"}} & after
    assert json.loads(checkout.record("plain").read_text())["status"] == "ok"


def test_unlock_refuses_while_a_run_is_alive(checkout: Checkout) -> None:
    (checkout.root / "snakemake").write_text("import time; time.sleep(30)")
    alive = subprocess.Popen([sys.executable, "snakemake"], cwd=checkout.root)
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from specatlas.cli import main; main(['unlock'])"],
            cwd=checkout.root,
            env=checkout.environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        alive.kill()
        alive.wait()
    assert done.returncode == 2
    assert f"Snakemake already runs in this checkout (process {alive.pid})" in done.stderr

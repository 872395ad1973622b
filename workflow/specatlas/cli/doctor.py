"""`doctor`: whether this machine can run the leaderboard, and what would make its timings doubtful. Works offline."""

import importlib.metadata
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec

import psutil
import typer

from specatlas.cli.common import (
    FAILED_CHECK,
    JsonOption,
    load_config,
    load_project,
    print_json,
    print_table,
)
from specatlas.errors import SpecAtlasError
from specatlas.plan import Plan
from specatlas.project import Project, find_project

HUB = "huggingface.co"
HUB_TIMEOUT_SECONDS = 2.0
ENOUGH_DISK_GB = 10
ENOUGH_MEMORY_GB = 4
BUSY_CORES = 0.5
PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "datasets",
    "snakemake",
    "mkdocs-material",
    "pydantic",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes:
        outcome: `ok`, `note` (works, but read the detail) or `fail` (the leaderboard cannot run).
    """

    check: str
    outcome: str
    detail: str


def register(app: typer.Typer) -> None:
    """Adds this group's commands."""
    app.command("doctor")(doctor)


def doctor(as_json: JsonOption = False) -> None:
    """Check this machine: software, device, disk, models, browser, hub and load; exit code 1 when it cannot run."""
    findings = [finding for check in CHECKS for finding in check()]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [(finding.check, finding.outcome, finding.detail) for finding in findings]
        print_table("This machine", ("check", "outcome", "detail"), rows)
    if any(finding.outcome == "fail" for finding in findings):
        raise typer.Exit(FAILED_CHECK)


def _python() -> Iterator[Finding]:
    fine = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if fine else "fail", f"{platform.python_version()} (3.11 or later is needed)")


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        try:
            yield Finding(name, "ok", importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(name, "fail", "not installed; run `make setup`")


def _device() -> Iterator[Finding]:
    if find_spec("torch") is None:
        return
    import torch

    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        yield Finding("device", "ok", ", ".join(torch.cuda.get_device_name(index) for index in range(count)))
    elif shutil.which("nvidia-smi"):
        yield Finding("device", "note", "nvidia-smi is here, but this torch has no CUDA: timings will run on the CPU")
    else:
        yield Finding("device", "ok", f"CPU ({platform.processor() or platform.machine()})")
    cores = psutil.cpu_count(logical=False) or os.cpu_count()
    yield Finding("cores", "ok", f"{cores} physical, {os.cpu_count()} logical, torch uses {torch.get_num_threads()}")


def _memory() -> Iterator[Finding]:
    available = psutil.virtual_memory().available / 1e9
    enough = available >= ENOUGH_MEMORY_GB
    yield Finding("memory", "ok" if enough else "note", f"{available:.1f} GB available ({ENOUGH_MEMORY_GB} are enough)")


def _load() -> Iterator[Finding]:
    busy = psutil.cpu_percent(interval=0.5) / 100 * (os.cpu_count() or 1)
    quiet = busy < BUSY_CORES
    advice = "" if quiet else "; timings taken now will be flagged"
    yield Finding("load", "ok" if quiet else "note", f"other work keeps {busy:.1f} cores busy{advice}")


def _checkout() -> Iterator[Finding]:
    try:
        project, catalog = load_project()
        config = load_config(project, None)
    except SpecAtlasError as error:
        yield Finding("checkout", "fail", str(error))
        return
    yield Finding("checkout", "ok", f"{len(catalog.methods)} methods, {len(catalog.runnable())} run here")
    present = os.path.isfile(Plan(project, config, "any").model(config.target))  # noqa: PTH113 - a string from the plan
    missing = "not fetched yet; `make leaderboard` does it"
    yield Finding(f"model {config.target}", "ok" if present else "note", "present" if present else missing)


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(_root_or_here()).free / 1e9
    enough = free >= ENOUGH_DISK_GB
    yield Finding(
        "disk", "ok" if enough else "note", f"{free:.0f} GB free ({ENOUGH_DISK_GB} are enough for the default)"
    )


def _browser() -> Iterator[Finding]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    yield Finding("browser", "ok" if found else "note", found or "no Chromium: the site's browser tests are skipped")


def _hub() -> Iterator[Finding]:
    if os.environ.get("HF_HUB_OFFLINE"):
        yield Finding("hub", "note", "HF_HUB_OFFLINE is set: only models that are here already can be used")
        return
    try:
        with socket.create_connection((HUB, 443), timeout=HUB_TIMEOUT_SECONDS):
            yield Finding("hub", "ok", f"{HUB} answers")
    except OSError:
        yield Finding("hub", "note", f"{HUB} does not answer: the embedded default works, `hf:` models do not")


def _root_or_here() -> str:
    try:
        project: Project = find_project()
        return str(project.root)
    except SpecAtlasError:
        return "."


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _device,
    _memory,
    _load,
    _checkout,
    _disk,
    _browser,
    _hub,
)

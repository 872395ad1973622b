"""Machine, software and checkout: what tells two runs apart. Imports torch only inside `read_environment`."""

import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import psutil

from specatlas.config import Config
from specatlas.records.schema import Environment

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "safetensors", "specatlas")
COMMAND_TIMEOUT_SECONDS = 20
LONGEST_SLUG = 48


def machine_name(config: Config) -> str:
    """Name of this machine in record paths: the configuration's, or one derived from GPU or CPU.

    A derived name depends on hardware alone (accelerator, CPU model, core count), so it is the same in every process
    and after every restart, and two kinds of machine never share one.
    """
    if config.machine != "auto":
        return config.machine
    cpu, cores = cpu_model(), physical_cores()
    accelerator = accelerator_name() if config.device != "cpu" else None
    label = accelerator or f"{cpu} {cores} cores"
    digest = hashlib.sha256(f"{platform.machine()}|{accelerator}|{cpu}|{cores}".encode()).hexdigest()
    return f"{_slug(label)}-{digest[:6]}"


def _slug(label: str) -> str:
    plain = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*?(?= \d+ cores$)", " ", label.lower())
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:LONGEST_SLUG].rstrip("-") or "machine"


def cpu_model() -> str:
    """The CPU's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in {"model name", "Model", "Hardware"} and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown CPU"


def physical_cores() -> int:
    """Cores of the machine, hyper-threads counted once."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def accelerator_name() -> str | None:
    """Name of the first GPU that this process may use; null without one, or where torch was built for CPUs.

    Asks nvidia-smi, not torch, which takes seconds to import.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in {"", "-1"} or _version("torch").endswith("+cpu") or shutil.which("nvidia-smi") is None:
        return None
    listing = _output(["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"])
    rows = [[cell.strip() for cell in line.split(",", 2)] for line in (listing or "").splitlines()]
    rows = [row for row in rows if len(row) == 3]
    first = visible.split(",")[0].strip() if visible else None
    chosen = [name for index, uuid, name in rows if first is None or first == index or uuid.startswith(first)]
    # A MIG device or another spelling: one host's GPUs are of one kind, so any of them names it.
    return chosen[0] if chosen else rows[0][2] if rows else None


def read_environment(
    machine: str, device: str, *, load_before: float, load_after: float, foreign_load: float
) -> Environment:
    """Describes machine and software as they are now.

    Args:
        machine: Name in record paths.
        device: The torch device that the target runs on.
        load_before, load_after: `load_average()` before and after the unit.
        foreign_load: Mean work of other processes while the unit was timed, in cores.
    """
    import torch

    on_gpu = torch.device(device).type == "cuda"
    return Environment(
        machine=machine,
        cpu=cpu_model(),
        cores=physical_cores(),
        threads=torch.get_num_threads(),
        memory_bytes=psutil.virtual_memory().total,
        device=device,
        accelerator=torch.cuda.get_device_name(device) if on_gpu else None,
        python=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
        load_before=load_before,
        load_after=load_after,
        foreign_load=foreign_load,
    )


def load_average() -> float:
    """Runnable processes, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Commit of the checkout, and whether it has changes that the commit does not hold; nulls without git.

    Published records do not count as changes: copying one would make every later measurement look uncommitted.
    """
    top = _output(["git", "-C", str(root), "rev-parse", "--show-toplevel"])
    if top is None or Path(top).resolve() != root.resolve():
        return None, None
    commit = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
    changes = _output(["git", "-C", str(root), "status", "--porcelain", "--", ".", ":!data/results"])
    return commit or None, None if changes is None else bool(changes)


def _output(command: list[str]) -> str | None:
    """What a command prints; null where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=COMMAND_TIMEOUT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

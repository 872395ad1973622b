"""Peak memory of decoding: resident on a CPU, allocated on a GPU."""

import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

_RESET_PEAK = "5"


def forget_peak(device: torch.device) -> None:
    """Starts a new peak, so that what the process did before does not count."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):  # Linux only, and not in every container
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")


def peak_bytes(device: torch.device) -> int:
    """Peak since `forget_peak`, or since the process began where the system cannot forget."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    with suppress(OSError, StopIteration, ValueError):
        status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return int(next(line.split()[1] for line in status if line.startswith("VmHWM:"))) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def free_memory() -> None:
    """Gives back what models that are no longer used held, before another one is loaded."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()

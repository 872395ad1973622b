"""Devices and when they are done: the clock is read only when nothing is under way (known faults K04, K05)."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch

from specatlas.errors import ConfigError


def choose_device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device of a run.

    Raises:
        ConfigError: CUDA is asked for and not there.
    """
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise ConfigError("device: cuda was asked for, but torch sees no GPU; set device to auto or cpu.")
    return torch.device("cuda", torch.cuda.current_device()) if available and wanted != "cpu" else torch.device("cpu")


def synchronizer(device: torch.device) -> Callable[[], None]:
    """A function that waits until the device has done all its work."""
    if device.type == "cuda":
        return partial(torch.cuda.synchronize, device)
    if device.type == "mps":
        return torch.mps.synchronize
    return _nothing


def _nothing() -> None:
    """A CPU is done when the call returns."""

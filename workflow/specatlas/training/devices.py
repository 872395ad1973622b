"""Which device work runs on."""

import torch

from specatlas.errors import ConfigError


def pick_device(wanted: str) -> torch.device:
    """`auto` is the first CUDA device where there is one, else the CPU.

    Raises:
        ConfigError: CUDA is wanted, and there is none.
    """
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda was asked for, but torch sees no CUDA device; set device to auto or cpu.")
    return torch.device(wanted)

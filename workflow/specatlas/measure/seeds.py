"""Every random choice of a unit comes from the settings' seed through these functions."""

import hashlib

_BYTES = 6
"""48 bits: exact in every JSON reader, in JavaScript too."""


def generation_seed(base: int, prompt_id: str, turn: int, cycle: int) -> int:
    """Seed of one generation, the same for both arms."""
    return _derive("generation", base, prompt_id, turn, cycle)


def order_seed(base: int) -> int:
    """Seed of the order in which the arms run."""
    return _derive("order", base)


def _derive(*parts: object) -> int:
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_BYTES])

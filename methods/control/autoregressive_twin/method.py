"""Plain decoding."""

from specatlas.drafting.setup import Setup
from specatlas.engine.drafter import Drafter, PlainDrafter


def build(setup: Setup) -> Drafter:  # noqa: ARG001
    """The drafter that never drafts."""
    return PlainDrafter()

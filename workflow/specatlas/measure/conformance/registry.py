"""The checks by name. A check is a function of a subject that returns what it did, or raises."""

from collections.abc import Callable
from dataclasses import dataclass

from specatlas.measure.conformance.subject import Subject

Check = Callable[[Subject], str]

CHECKS: dict[str, Check] = {}


class CheckFailed(Exception):
    """The method does not do what the check asks; the message says where."""


@dataclass(frozen=True)
class Outcome:
    """Of one check on one method."""

    passed: bool
    detail: str


def check(name: str) -> Callable[[Check], Check]:
    """Registers a check under `name`."""

    def register(function: Check) -> Check:
        CHECKS[name] = function
        return function

    return register


def run_check(name: str, subject: Subject) -> Outcome:
    """Runs one check; whatever a method raises is its failure, since it may contain any bug."""
    try:
        return Outcome(True, CHECKS[name](subject))
    except CheckFailed as failure:
        return Outcome(False, str(failure))
    except Exception as error:
        return Outcome(False, f"{type(error).__name__}: {error}")


def expect_equal(got: object, expected: object, what: str) -> None:
    """Fails where two values differ.

    Raises:
        CheckFailed: Says what differs, and both values.
    """
    if got != expected:
        raise CheckFailed(f"{what}: got {_short(got)}, expected {_short(expected)}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 160 else f"{text[:157]}…"

"""Which failures are the method's, and so data, and which are the machine's, and so end the job."""

import torch

from specatlas.drafting.setup import Artifact
from specatlas.errors import ConfigError, MachineBusy, ModelSourceError, Refusal, SpecAtlasError
from specatlas.prompts.schema import PromptError
from specatlas.records.schema import UnitStatus

INFRASTRUCTURE = (ModelSourceError, PromptError, ConfigError, MachineBusy)
LONGEST_REASON = 300
_OUT_OF_MEMORY_TEXTS = ("can't allocate memory", "not enough memory", "out of memory")


class ArtifactFailed(SpecAtlasError):
    """Training or search of an artifact failed, so the method cannot be measured."""

    def __init__(self, reason: str, code: str) -> None:
        super().__init__(reason)
        self._code = code

    @property
    def code(self) -> str:
        """The stable name of what went wrong in training."""
        return self._code


class ArtifactRefused(ArtifactFailed, Refusal):
    """Training or search of an artifact was refused."""


def check_artifacts(artifacts: dict[str, Artifact]) -> None:
    """Artifacts may say that they could not be made.

    Raises:
        ArtifactFailed: One does; with the reason that its training left.
    """
    for slug, artifact in artifacts.items():
        status = artifact.metadata.get("status")
        if status in {UnitStatus.FAILED, UnitStatus.REFUSED, UnitStatus.OUT_OF_MEMORY}:
            kind = ArtifactRefused if status == UnitStatus.REFUSED else ArtifactFailed
            reason = artifact.metadata.get("reason", "no reason was recorded")
            raise kind(
                f"The artifact of {slug} could not be made: {reason}", artifact.metadata.get("error_code", status)
            )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether host or device memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY_TEXTS)


def status_of(error: Exception) -> UnitStatus:
    """How a unit ended that raised `error`."""
    if is_out_of_memory(error):
        return UnitStatus.OUT_OF_MEMORY
    return UnitStatus.REFUSED if isinstance(error, Refusal) else UnitStatus.FAILED


def reason_of(error: Exception) -> str:
    """One line that says why."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    if not isinstance(error, SpecAtlasError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:LONGEST_REASON]


def code_of(error: Exception) -> str:
    """Stable name of the error."""
    return error.code if isinstance(error, SpecAtlasError) else type(error).__name__

"""An artifact that could not be made, as typed data: the DAG goes on, and nothing can mistake it for weights."""

import json
import struct
from pathlib import Path

from specatlas.errors import SpecAtlasError
from specatlas.files import atomic_path, write_json
from specatlas.records.schema import UnitStatus


def record_failure(folder: Path, error: Exception, status: UnitStatus) -> Path:
    """Writes `training.json` with status and reason, and a safetensors file without tensors that says the same.

    `specatlas.measure.failures.check_artifacts` reads it. Written by hand rather than through torch, which may be what
    failed.
    """
    failure = {
        "status": status.value,
        "error_code": error.code if isinstance(error, SpecAtlasError) else type(error).__name__,
        "reason": str(error) or type(error).__name__,
    }
    header = json.dumps({"__metadata__": {"specatlas": json.dumps(failure)}}).encode()
    header += b" " * (-len(header) % 8)
    with atomic_path(folder / "artifact.safetensors") as temporary:
        temporary.write_bytes(struct.pack("<Q", len(header)) + header)
    write_json(folder / "training.json", failure)
    return folder

"""One timing job at a time on a device, whoever starts it: a lock that all processes of the machine see."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from specatlas.errors import MachineBusy

FOLDER = "specatlas-locks"
EVERYONE = 0o666


@contextmanager
def machine_lock(device: str, *, timeout: float | None = None, folder: Path | None = None) -> Iterator[None]:
    """Holds the lock of a device; waits for it, and says so.

    The operating system releases it when its holder dies, so a killed run leaves nothing to clean up.

    Args:
        device: `device_identity` of the device.
        timeout: Longest wait in seconds; null to wait as long as it takes.
        folder: Where lock files lie; one folder for the whole machine by default.

    Raises:
        MachineBusy: Another job still held it after `timeout`.
    """
    lock = FileLock((folder or lock_folder()) / f"{device}.lock", mode=EVERYONE)
    _acquire(lock, device, timeout)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, device: str, timeout: float | None) -> None:
    try:
        lock.acquire(timeout=0)
        return
    except Timeout:
        # Straight to standard error: this line must reach the log while the job waits.
        sys.stderr.write(f"Another timing job holds {device} on this machine; waiting for it to end.\n")
        sys.stderr.flush()
    try:
        lock.acquire(timeout=-1 if timeout is None else timeout)
    except Timeout as error:
        raise MachineBusy(
            f"Another timing job still holds {device} after {timeout:g} s; let it end, then run this again."
        ) from error


def lock_folder() -> Path:
    """A folder that every user can write to.

    /tmp rather than TMPDIR, which may differ from job to job. Without the sticky bit, since Linux refuses to open other
    users' files in sticky folders.
    """
    root = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
    folder = root / FOLDER
    folder.mkdir(exist_ok=True)
    with suppress(PermissionError):  # another user made it, and opened it to everyone
        folder.chmod(0o777)
    return folder


def device_identity(device_type: str, uuid: str | None = None) -> str:
    """Name of a device's lock: the GPU's own, or the CPU's."""
    return device_type if uuid is None else f"{device_type}-{uuid}"

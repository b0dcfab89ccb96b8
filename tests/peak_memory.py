"""Peak memory of a piece of code, including C libraries (Linux)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class PeakMemory:
    """bytes: peak resident size of the code, minus the size before it."""

    bytes: int = 0


@contextmanager
def peak_memory() -> Iterator[PeakMemory]:
    """Sets `bytes` of the yielded object at the end; 0 if the system does not report it."""
    found = PeakMemory()
    try:
        _CLEAR.write_text("5")  # sets VmHWM back to VmRSS
    except OSError:
        yield found
        return
    before = _status_bytes("VmRSS")
    try:
        yield found
    finally:
        found.bytes = max(0, _status_bytes("VmHWM") - before)


def _status_bytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


def resident_bytes() -> int:
    """Resident bytes of this process now (Linux)."""
    return _status_bytes("VmRSS")

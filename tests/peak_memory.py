"""Peak memory of a piece of code, including C libraries (Linux)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
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


def assert_little_memory(run: Callable[[], T], limit: int) -> T:
    """The result of `run`, which may use fewer than `limit` bytes.

    Measured up to three times: Linux once reported 190 MiB for code that allocates nothing.
    """
    for _ in range(3):
        with peak_memory() as memory:
            result = run()
        if memory.bytes < limit:
            return result
    raise AssertionError(f"{memory.bytes >> 20} MiB, expected fewer than {limit >> 20}")


def _status_bytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


def resident_bytes() -> int:
    """Resident bytes of this process now (Linux)."""
    return _status_bytes("VmRSS")

"""Reads large files made to take much memory: `python -m tests.fuzz.large [--megabytes N] [--only NAME]`.

Prints a row per file: its length, the result (resident), the peak and the limit of SECURITY.md in MiB, and
CPU seconds. The exit code is 1 if a limit was exceeded. Each file is read in its own process.
"""

import argparse
import json
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from splat_cli.errors import SplatError
from tests.fuzz.attack import BASE_BYTES, BYTES_PER_BYTE
from tests.fuzz.large_files import LARGE_FILES
from tests.peak_memory import peak_memory, resident_bytes
from tests.subprocesses import environment, finished

BASE_SECONDS, SECONDS_PER_MEGABYTE = 5.0, 1.0


@dataclass(frozen=True)
class Measured:
    """size: bytes of the file. arrays: bytes of its points as arrays.

    returned: bytes of the reader's result. peak: bytes of the peak above the memory before.
    """

    name: str
    size: int
    arrays: int
    returned: int
    peak: int
    seconds: float
    outcome: str

    @property
    def max_bytes(self) -> int:
        return BASE_BYTES + BYTES_PER_BYTE * max(self.size, self.arrays, self.returned)

    @property
    def max_seconds(self) -> float:
        return BASE_SECONDS + SECONDS_PER_MEGABYTE * self.size / 2**20

    @property
    def is_within_limits(self) -> bool:
        return self.peak <= self.max_bytes and self.seconds <= self.max_seconds


def measure(name: str, megabytes: float) -> Measured:
    """Reads the file in a separate process."""
    command = [sys.executable, "-m", "tests.fuzz.large", "--one", name, "--megabytes", str(megabytes)]
    ended = finished(command, env=environment())
    assert ended.returncode == 0, f"{name}: {ended.stderr[-2000:]}"
    return Measured(**json.loads(ended.stdout))


def _measure_here(name: str, size: int) -> Measured:
    large = next(large for large in LARGE_FILES if large.name == name)
    with tempfile.TemporaryDirectory() as folder:
        path = large.build(Path(folder), size)
        length = max(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        with warnings.catch_warnings(), peak_memory() as memory:
            warnings.simplefilter("ignore")
            before, start = resident_bytes(), time.process_time()
            try:
                result, outcome = large.read(path), "read"
            except SplatError as error:
                result, outcome = None, str(error)
            seconds = time.process_time() - start
            returned = max(0, resident_bytes() - before)
            del result
    return Measured(name, length, int(large.expansion * length), returned, memory.bytes, seconds, outcome)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=16, help="length of each file")
    parser.add_argument("--only", default="", help="only files whose names contain this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asdict(_measure_here(options.one, int(options.megabytes * 2**20)))))
        return 0
    failed = False
    print(f"{'file':<26} {'MiB':>7} {'returned':>9} {'peak':>7} {'limit':>7} {'seconds':>8}")
    for name in (large.name for large in LARGE_FILES if options.only in large.name):
        found = measure(name, options.megabytes)
        mib = [value / 2**20 for value in (found.size, found.returned, found.peak, found.max_bytes)]
        verdict = found.outcome[-50:] if found.is_within_limits else "EXCEEDED"
        failed |= not found.is_within_limits
        figures = "{:7.1f} {:9.1f} {:7.1f} {:7.1f} {:8.2f}".format(*mib, found.seconds)
        print(f"{name:<26} {figures}  {verdict}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

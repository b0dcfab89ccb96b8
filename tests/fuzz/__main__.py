"""Attacks every reader with thousands of files: `python -m tests.fuzz [--count N] [--seed S] [--only NAME]`.

Some files are damaged at random places, most are intact containers with wrong contents. Prints a table: how many files
each reader accepted and refused, and the worst time and memory of a file. A reader is done at the first file that
crashes it, takes more than 5 seconds or too much memory, or makes it change files; the exit code is then 1.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.attack import Outcome, attack
from tests.fuzz.readers import TARGETS


def main() -> int:
    """Runs all targets; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="files for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only readers whose names contain this")
    options = parser.parse_args()
    total, failed = Outcome(), False
    print(f"{'reader':<28} {'read':>7} {'refused':>8} {'worst s':>8} {'worst MiB':>10}")
    for target in (target for target in TARGETS if options.only in target.name):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "input").mkdir()
            try:
                outcome = attack(target, Path(folder) / "input", options.count, options.seed, measure_memory=True)
            except AssertionError as error:
                print(f"FAILED {error}", flush=True)
                failed = True
                continue
        _print(target.name, outcome)
        total.read, total.refused = total.read + outcome.read, total.refused + outcome.refused
        total.seconds = max(total.seconds, outcome.seconds)
        total.peak_bytes = max(total.peak_bytes, outcome.peak_bytes)
    _print("all", total)
    return int(failed)


def _print(name: str, outcome: Outcome) -> None:
    megabytes = outcome.peak_bytes / 2**20
    print(f"{name:<28} {outcome.read:7} {outcome.refused:8} {outcome.seconds:8.2f} {megabytes:10.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""Fails every disk operation of short runs, one after the other, and resumes them.

`python scripts/checks/faults.py`: each open, write, fsync, rename, unlink, mkdir and truncation under a run's folder
fails once with EIO, ENOSPC and EACCES, is a short or a torn write, is where the disk is full from then on, or where the
program is killed (tests/faults/). Every resumed run has to end with the bytes of the run that nothing happened to, with
all it was to save, and no file under its final name may ever be damaged. Exits with 1 where that was not so. On two
cores all of it takes about half an hour; `--share 10` makes one trial of ten.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=int, default=1, metavar="N", help="one trial of N, drawn at random")
    parser.add_argument("--jobs", type=int, default=2, help="at a time")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.faults", folder, *map(str, (args.share, args.jobs, args.seed))]
        return subprocess.run(command, cwd=_ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Makes each disk operation of six commands fail, one by one, and repeats the command.

The commands: a training, a resume, two exports, a batch, the merge of a city.

`python scripts/checks/faults.py --trials 200`: each open, read, write, fsync, rename, unlink, mkdir, truncation and
listing of a folder fails once with EIO, ENOSPC and EACCES, writes only a part, leaves the disk full for good, or
kills the program (tests/faults/). No file under its final name may be damaged. A command that fails must say why in one
line. If it is repeated on a working disk, it must give the same bytes as an undisturbed command.
Exits with 1 if a trial fails. Without --trials, runs all trials, about 4,000, which takes two hours on two cores.
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
    parser.add_argument("--trials", type=int, default=0, metavar="N", help="number of random trials; 0: all")
    parser.add_argument("--jobs", type=int, default=2, help="trials at the same time")
    parser.add_argument("--seed", type=int, default=0, help="for the choice of trials")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.faults", folder, *map(str, (args.trials, args.jobs, args.seed))]
        return subprocess.run(command, cwd=_ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

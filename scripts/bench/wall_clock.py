"""Seconds of a whole `splat train` command: phases, report, exit, and time outside of the phases.

    python scripts/bench/wall_clock.py SCENE --eval --steps 7000
    python scripts/bench/wall_clock.py --runs 3 SCENE --eval --steps 7000 --no-report

All other options go to `splat train`; each run goes to a temporary folder. The first run on a machine also compiles
kernels. before: from the start of the process to the phase "starting"; report: from the end of the last phase to the
result; exit: from the result to the end of the process.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Parse the command line; print a row of seconds for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2, help="default: %(default)s")
    args, options = parser.parse_known_args()
    for _ in range(args.runs):
        with tempfile.TemporaryDirectory() as folder:
            seconds = _measure(options, Path(folder) / "run")
        print(", ".join(f"{name} {value:.2f}" for name, value in seconds.items()), flush=True)


def _measure(options: list[str], run: Path) -> dict[str, float]:
    """Seconds by part of one run. Ends the script if it fails."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "splat_cli", "train", *options, "-o", str(run), "-v", "--progress", "plain"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    assert process.stdout is not None
    trained = result = start
    for line in process.stdout:
        result = time.perf_counter()
        trained = result if line.startswith("Time: ") and trained == start else trained
    if process.wait():
        sys.exit(f"{' '.join(command)} failed with exit code {process.returncode}")
    end = time.perf_counter()
    lines = [json.loads(line) for line in (run / "train.jsonl").read_text().splitlines()]
    phases: dict[str, float] = next(line["phases"] for line in reversed(lines) if "phases" in line)
    before = trained - start - sum(phases.values())
    return {"all": end - start, "before": before, **phases, "report": result - trained, "exit": end - result}


if __name__ == "__main__":
    main()

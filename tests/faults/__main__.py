"""`python -m tests.faults FOLDER TRIALS JOBS SEED`: the trials of scripts/checks/faults.py, JOBS at a time."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.faults.library import start_trials
from tests.small_scene import write_small_scene


def main(folder: Path, num_trials: int, num_jobs: int, seed: int) -> int:
    """Returns the exit code; prints what went wrong, and a summary of each job."""
    scene = write_small_scene(folder / "scene")
    with ExitStack() as stack:
        trials = [
            start_trials(scene, folder / f"job-{job}", num_trials, job, num_jobs, seed) for job in range(num_jobs)
        ]
        jobs = [stack.enter_context(trial) for trial in trials]
        return max(map(_relay, jobs))


def _relay(job: "subprocess.Popen[str]") -> int:
    assert job.stdout is not None
    for line in job.stdout:
        print(line, end="", flush=True)
    return job.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))

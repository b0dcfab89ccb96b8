"""A few of the trials of scripts/checks/faults.py."""

from tests.faults.library import start_trials
from tests.subprocesses import HANG


def test_commands_survive_failing_disk_operations(scene, tmp_path):
    with start_trials(scene, tmp_path / "job", trials=10, job=0, num_jobs=1, seed=0) as job:
        said, _ = job.communicate(timeout=HANG)
    assert job.returncode == 0, said
    assert "10 of 10 trials passed" in said

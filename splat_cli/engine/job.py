"""Jobs: commands of this program for other processes, their results, and the jobs that train a scene."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.config import TrainConfig
from splat_cli.config.presets import as_arguments, requested_settings
from splat_cli.io.folder_lock import wait_until_unlocked
from splat_cli.run.storage.find_run import is_run

_KILLED = -9
"""Exit code of a process ended by SIGKILL; Windows has no such signal."""


@dataclass(frozen=True)
class Job:
    """A command `splat ARGUMENTS...`, run in a separate process.

    name: unique, for messages. folder: absolute working folder; all other paths may be relative to it. log: file to
    which standard error is appended. run: folder of the run that the command writes, if any; once it is a run,
    `resume_arguments` replace `arguments`, so an interrupted job is submitted again unchanged. inputs: paths that the
    command reads. On a cluster, all workers must see folder, log and inputs. priority: waiting jobs with the highest
    value start first.
    """

    name: str
    arguments: tuple[str, ...]
    folder: Path
    log: Path
    run: Path | None = None
    resume_arguments: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = ()
    priority: int = 0

    def command(self) -> tuple[str, ...]:
        """The arguments; `resume_arguments` if the run has begun."""
        return self.resume_arguments if self.is_begun() else self.arguments

    def paths(self) -> list[Path]:
        """Absolute paths of all that a worker must see."""
        return [self.folder, *(self.folder / path for path in (self.log, *self.inputs))]

    def visible(self) -> Job:
        """The job with its existing inputs and its log: a worker that shares the folder sees them. OSError."""
        (self.folder / self.log).touch()
        return dataclasses.replace(self, inputs=tuple(path for path in self.inputs if (self.folder / path).exists()))

    def wait_for_run(self, patience: float, is_cancelled: Callable[[], bool], say: Callable[[str], None]) -> None:
        """Wait up to `patience` seconds until no other process holds the lock of `run`."""
        if self.run:
            wait_until_unlocked(self.folder / self.run, patience, is_cancelled, say)

    def is_begun(self) -> bool:
        """Whether `run` already contains a run, which the job resumes."""
        return self.run is not None and is_run(self.folder / self.run)


@dataclass(frozen=True)
class JobResult:
    """How the process of a job ended.

    exit_code: negative if a signal ended it. seconds: wall time. place: where it ran. output: standard output.
    message: last line of standard error.
    """

    job: Job
    exit_code: int
    seconds: float
    place: str
    output: str
    message: str

    def json_output(self) -> dict[str, Any]:
        """The last line that a command with --json printed; after a crash `error` and `exit_code`."""
        try:
            return dict(json.loads(self.output.strip().rpartition("\n")[2]))
        except (ValueError, TypeError):
            reason = f": {self.message}" if self.exit_code > 0 and self.message else ""
            killed = " (killed, as systems do when memory runs out)" if self.exit_code == _KILLED else ""
            error = f"the process ended with {self.exit_code}{killed}{reason}, see {self.job.log}"
            return {"error": error, "exit_code": self.exit_code}


def failed_result(job: Job, reason: str, exit_code: int = 1) -> JobResult:
    """The result of a job whose process could not finish."""
    return JobResult(job, exit_code, 0.0, "", json.dumps({"error": reason, "exit_code": exit_code}), reason)


def train_job(name: str, scene: Path, run: Path, config: TrainConfig, device: str) -> Job:
    """The job `splat train --json` of a scene. It resumes a run that has begun. Its log is next to the run's folder."""
    command = ("train", str(scene), "--json", "--device", device)
    settings = as_arguments(requested_settings(config))
    new, resumed = (*command, "--out", str(run), *settings), (*command, "--resume", str(run), *settings)
    return Job(name, new, Path.cwd(), _log_of(run), run, resumed, (scene,))


def resume_job(run: Path, scene: Path | None, changes: Mapping[str, Any], device: str) -> Job:
    """The job `splat train --resume --json` of a run with changed settings; same log as `train_job`.

    scene: its new folder, if it has moved.
    """
    moved = () if scene is None else (scene,)
    command = ("train", *map(str, moved), "--json", "--device", device, "--resume", str(run), *as_arguments(changes))
    return Job(run.name, command, Path.cwd(), _log_of(run), run, command, (run, *moved))


def resumed_on(job: Job, num_gpus: int) -> Job:
    """The job, changed so that a run that has begun continues on `num_gpus` GPUs."""
    return dataclasses.replace(job, resume_arguments=(*job.resume_arguments, f"--gpus={num_gpus}"))


def _log_of(run: Path) -> Path:
    return run.with_name(f"{run.name}.log")

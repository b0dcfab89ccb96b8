"""Jobs and their results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.run.storage.find_run import is_run

_KILLED = -9
"""Exit code of a process ended by SIGKILL; Windows has no such signal."""


@dataclass(frozen=True)
class Job:
    """A command `splat ARGUMENTS...`, run in a process of its own.

    name: unique, for messages. folder: the absolute working folder; all other paths may be relative to it. log: file to
    which standard error is appended. run: folder of the run that the command writes, if it writes one; as soon as it is
    a run, `resume_arguments` take the place of `arguments`: a job that was interrupted is submitted again as it is.
    inputs: paths that the command reads. With a cluster, folder, log and inputs must be visible on all workers.
    priority: the waiting job with the highest value starts first.
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
        """The arguments; if the run has begun, those that continue it."""
        return self.resume_arguments if self.is_begun() else self.arguments

    def is_begun(self) -> bool:
        """Whether `run` is already the folder of a run, so that the job resumes it."""
        return self.run is not None and is_run(self.folder / self.run)


@dataclass(frozen=True)
class JobResult:
    """How the process of a job ended.

    exit_code: negative for the number of the signal that ended it. seconds: wall time. place: where it ran. output:
    standard output. message: last line of standard error.
    """

    job: Job
    exit_code: int
    seconds: float
    place: str
    output: str
    message: str

    def json_output(self) -> dict[str, Any]:
        """The output of a command with --json, its last line; of a crash `error` and `exit_code`."""
        try:
            return dict(json.loads(self.output.strip().rpartition("\n")[2]))
        except (ValueError, TypeError):
            reason = f": {self.message}" if self.exit_code > 0 and self.message else ""
            killed = " (killed, as systems do when memory runs out)" if self.exit_code == _KILLED else ""
            error = f"the process ended with {self.exit_code}{killed}{reason}, see {self.job.log}"
            return {"error": error, "exit_code": self.exit_code}

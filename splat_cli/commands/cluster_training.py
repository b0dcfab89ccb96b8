"""One run on the workers of a Dask cluster, one rank per worker. It is restarted after a loss."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.config import TrainConfig
from splat_cli.engine.job import Job, JobResult, resume_job, resumed_on, train_job
from splat_cli.errors import UsageError
from splat_cli.io.files import make_folder
from splat_cli.ranks.protocol import FailedRankError, RankError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.ranks import check_settings
from splat_cli.run.resume import Restarts, interruption, resume_advice
from splat_cli.run.storage.find_run import is_run, open_run
from splat_cli.run.storage.result import RunSummary, read_result
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display
from splat_cli.terminal.interrupt import deferred_interrupt

_WARNING, _REPEATED = "Warning: ", ("Error: ", "Interrupted")  # how these lines begin


def new_run_on_cluster(
    scene: Path, path: Path, config: TrainConfig, cluster: str, device: str, display: Display
) -> RunSummary:
    """Train a scene into a new folder. See `_train`."""
    check_settings(config)
    if is_run(path):  # otherwise the job would continue it
        raise UsageError(f"{path} is a run already: name another folder, or continue it with --resume")
    job = train_job(path.name, scene, path, config, device)
    return _train(job, RunDir(path), config, cluster, device, display)


def resumed_run_on_cluster(
    path: Path, scene: Path | None, changes: dict[str, Any], cluster: str, device: str, display: Display
) -> RunSummary:
    """Continue a run with changes to its settings. See `_train`."""
    config = dataclasses.replace(open_run(path).config(), **changes)
    check_settings(config)
    job, is_asked = resume_job(path, scene, changes, device), "gpus" in changes
    return _train(job, RunDir(path), config, cluster, device, display, is_asked)


def _train(
    job: Job, run: RunDir, config: TrainConfig, cluster: str, device: str, display: Display, is_asked: bool = False
) -> RunSummary:
    """Run the job on one worker per GPU in the settings, or on fewer (see `_jobs`), and show its log.

    is_asked: whether the user gave the number of GPUs; the first attempt then uses exactly this number.
    Raises SplatError with the exit code and message of the job, RankError if workers are lost too often, Interrupted.
    """
    from splat_cli.engine.clusters import connected_client

    make_folder(job.log.parent)
    job.log.touch()
    log = _Log(job.log, display)
    restarts = Restarts(run, config, _saved(run), lambda: _saved(run), display, f"--cluster {cluster}")
    try:
        with deferred_interrupt() as check, connected_client(cluster, device, display.say) as client:
            from splat_cli.engine.dask_calls import SchedulerLost
            from splat_cli.engine.rank_group import RankGroup

            def look() -> None:
                log.show()
                check()

            group = RankGroup(client, device, not cluster.startswith("local:"), display.say, look)
            asked = [{config.gpus: job}] if is_asked else []

            def attempt(_: object) -> None:
                try:
                    _check(group.run(asked.pop() if asked else _jobs(job, run, config.gpus)))
                except SchedulerLost:
                    raise SchedulerLost(resume_advice(run, config, restarts.options)) from None
                finally:
                    log.show()

            restarts.repeat(attempt, lambda: None)
    except KeyboardInterrupt as signal:
        raise interruption(run, config, signal, restarts.options) from None
    return read_result(run)


def _jobs(job: Job, run: RunDir, gpus: int) -> dict[int, Job]:
    """The job for each possible number of GPUs; the result is always the same.

    A run with a known batch size may continue on fewer GPUs, if their number divides the batch size.
    """
    if not is_run(run.path):
        return {gpus: job}
    sizes = [size for size in range(1, gpus + 1) if size == gpus or run.config().batch_size % size == 0]
    return {size: resumed_on(job, size) for size in sizes}


@dataclass
class _Saved:
    """A checkpoint, which this process does not read."""

    step: int


def _saved(run: RunDir) -> _Saved | None:
    """The newest checkpoint of a run."""
    return next((_Saved(int(path.stem.removeprefix("step_"))) for path in checkpoint_paths(run.checkpoints_path)), None)


def _check(ended: JobResult) -> None:
    """Raise the error of the job, if it failed; RankError if it should be started again."""
    output = ended.json_output()
    if "error" not in output:
        return
    error, code = str(output["error"]), int(output["exit_code"])
    if code == UsageError.exit_code:
        raise UsageError(error)
    if code > 128:
        raise RankError("the worker of rank 0 closes")
    if code < 0 or code == RankError.exit_code:
        raise RankError(error)
    raise FailedRankError(error)


class _Log:
    """Shows new lines of a job's log."""

    def __init__(self, path: Path, display: Display) -> None:
        self._path, self._display = path, display
        self._position = path.stat().st_size

    def show(self) -> None:
        """Show new lines."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:  # shared storage may fail
            return
        self._position += len(whole) + len(newline)
        for line in whole.decode("utf-8", "replace").splitlines():
            if line.startswith(_WARNING):
                self._display.warn(line.removeprefix(_WARNING))
            elif not line.startswith(_REPEATED):
                self._display.say(line)

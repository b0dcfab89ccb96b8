"""Batch training: one process per scene; finished runs are skipped, interrupted ones resumed."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.presets import changed_settings
from splat_cli.console import Display
from splat_cli.device.cuda import visible_gpus, why_no_cuda
from splat_cli.errors import SplatError
from splat_cli.files import replacing
from splat_cli.interrupt import Interrupted, deferred_interrupt
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.tools.batch_list import Job

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class JobResult:
    """Outcome of a scene: "done", "skipped" (finished before) or "failed".

    result: output of `splat train --json`: as result.json, or `error` and `exit_code`.
    """

    name: str
    status: str
    result: dict[str, Any]

    def line(self, width: int) -> str:
        """Row of the summary; for failures the message."""
        head = f"{self.name:<{width}}  {self.status:<7}"
        if self.status == "failed":
            return f"{head}  {self.result['error']}"
        psnr, ssim = self.result.get("psnr"), self.result.get("ssim")
        measures = f"{psnr:6.2f}  {ssim:.4f}" if psnr is not None else "     -       -"
        return f"{head}  {measures}  {self.result['num_splats']:>10,}  {self.result['seconds']:>8.1f}"


@dataclass
class _Shared:
    """State shared by the workers, one per device."""

    jobs: queue.SimpleQueue[Job]
    device: str
    display: Display
    outcomes: dict[str, JobResult] = field(default_factory=dict)
    running: set[subprocess.Popen[str]] = field(default_factory=set)
    stopping: bool = False


def run_batch(jobs: Sequence[Job], out: Path, device: str, display: Display) -> list[JobResult]:
    """Train each scene in its own process, one per device at a time; writes OUT/summary.json.

    Output of processes goes to OUT/NAME.log. After Ctrl-C or SIGTERM, Interrupted when the running ones have saved.
    """
    out.mkdir(parents=True, exist_ok=True)
    shared = _Shared(queue.SimpleQueue(), device, display)
    for job in jobs:
        shared.jobs.put(job)
    workers = [threading.Thread(target=_work, args=(shared, env), daemon=True) for env in _environments(device)]
    with deferred_interrupt() as check:
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers):
                time.sleep(_POLL_SECONDS)
                check()
        except KeyboardInterrupt as error:
            _stop(shared, workers)
            raise Interrupted("Interrupted; the same command again goes on with what is left", error) from None
    outcomes = [shared.outcomes[job.name] for job in jobs]
    with replacing(out / "summary.json") as beside:
        beside.write_text(json.dumps([summary(outcome) for outcome in outcomes], indent=2) + "\n", encoding="utf-8")
    return outcomes


def summary(outcome: JobResult) -> dict[str, Any]:
    """The outcome as JSON."""
    return {"scene": outcome.name, "status": outcome.status, **outcome.result}


def _work(shared: _Shared, environment: dict[str, str]) -> None:
    """Run jobs on one device until the queue is empty."""
    while not shared.stopping:
        try:
            job = shared.jobs.get_nowait()
        except queue.Empty:
            return
        try:
            finished = RunDir(job.run).result()
            if finished.get("steps", 0) >= (job.config.steps or 1):
                shared.outcomes[job.name] = JobResult(job.name, "skipped", finished)
            else:
                result = _train(shared, job, environment)
                status = "failed" if "error" in result else "done"
                shared.outcomes[job.name] = JobResult(job.name, status, result)
        except SplatError as error:
            result = {"error": str(error), "exit_code": error.exit_code}
            shared.outcomes[job.name] = JobResult(job.name, "failed", result)
        shared.display.say(shared.outcomes[job.name].line(len(job.name)))


def _train(shared: _Shared, job: Job, environment: dict[str, str]) -> dict[str, Any]:
    """The JSON output of the process; for a crashed process, its exit status."""
    log = job.run.with_name(f"{job.name}.log")
    with log.open("a", encoding="utf-8") as messages:
        process = subprocess.Popen(
            _command(job, shared.device), stdout=subprocess.PIPE, stderr=messages, text=True,
            env={**os.environ, **environment}, start_new_session=True,  # Ctrl-C is forwarded by `_stop`
        )  # fmt: skip
    shared.running.add(process)
    if shared.stopping:
        process.terminate()
    printed, _ = process.communicate()
    shared.running.discard(process)
    try:
        return dict(json.loads(printed))
    except ValueError:
        return {"error": f"the process ended with {process.returncode}, see {log}", "exit_code": process.returncode}


def _command(job: Job, device: str) -> list[str]:
    command = [sys.executable, "-m", "splat_cli", "train", str(job.scene), "--json", "--device", device]
    place = ["--resume", str(job.run)] if is_run(job.run) else ["--out", str(job.run)]
    return [*command, *place, *_arguments(job.config)]


def _arguments(config: TrainConfig) -> list[str]:
    """Settings that differ from their defaults, as options."""
    arguments = []
    for name, value in changed_settings(config).items():
        option = SETTINGS[name].option
        if isinstance(value, bool):
            arguments.append(option if value else option.replace("--", "--no-", 1))
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            arguments.append(f"{option}={text}")
    return arguments


def _stop(shared: _Shared, workers: Sequence[threading.Thread]) -> None:
    """Interrupt the running processes and wait until they have saved."""
    shared.stopping = True
    for process in tuple(shared.running):
        process.terminate()
    for worker in workers:
        worker.join()


def _environments(device: str) -> list[dict[str, str]]:
    """Environment variables per device that make only this device visible."""
    if device == "cpu" or why_no_cuda():
        return [{}]
    import cupy

    return [{"CUDA_VISIBLE_DEVICES": name} for name in visible_gpus(cupy.cuda.runtime.getDeviceCount())]

"""Jobs that train a scene."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.presets import requested_settings
from splat_cli.engine.job import Job


def train_job(name: str, scene: Path, run: Path, config: TrainConfig, device: str) -> Job:
    """The job `splat train --json` on a scene, which resumes the run if it has begun. The log is beside the run's
    folder.
    """
    command = ("train", str(scene), "--json", "--device", device)
    settings = _arguments(requested_settings(config))
    return Job(
        name, (*command, "--out", str(run), *settings), Path.cwd(), _log_of(run), run,
        (*command, "--resume", str(run), *settings), (scene,),
    )  # fmt: skip


def resume_job(run: Path, scene: Path | None, changes: Mapping[str, Any], device: str) -> Job:
    """The job `splat train --resume --json` of a run with changed settings; same log as `train_job`.

    scene: its new folder, if it has moved.
    """
    moved = () if scene is None else (scene,)
    settings = _arguments(changes)
    command = ("train", *map(str, moved), "--json", "--device", device, "--resume", str(run), *settings)
    return Job(run.name, command, Path.cwd(), _log_of(run), run, command, (run, *moved))


def resumed_on(job: Job, num_gpus: int) -> Job:
    """The job, changed so that a run that has begun continues on `num_gpus` GPUs."""
    return dataclasses.replace(job, resume_arguments=(*job.resume_arguments, f"--gpus={num_gpus}"))


def _log_of(run: Path) -> Path:
    return run.with_name(f"{run.name}.log")


def _arguments(settings: Mapping[str, Any]) -> list[str]:
    """Settings as options of the command line."""
    arguments = []
    for name, value in settings.items():
        option = SETTINGS[name].option
        if isinstance(value, bool):
            arguments.append(option if value else option.replace("--", "--no-", 1))
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            arguments.append(f"{option}={text}")
    return arguments

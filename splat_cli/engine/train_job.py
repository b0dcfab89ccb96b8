"""Jobs that train a scene."""

from pathlib import Path

from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.presets import changed_settings
from splat_cli.engine.job import Job


def train_job(name: str, scene: Path, run: Path, config: TrainConfig, device: str) -> Job:
    """`splat train --json` on a scene, with its log beside the folder of the run; resumed if the run has begun."""
    command = ("train", str(scene), "--json", "--device", device)
    settings = _arguments(config)
    return Job(
        name, (*command, "--out", str(run), *settings), Path.cwd(), run.with_name(f"{run.name}.log"), run,
        (*command, "--resume", str(run), *settings), (scene,),
    )  # fmt: skip


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

"""Entries of a run's metrics.json."""

from typing import Any

from splat_cli.config import TrainConfig
from splat_cli.eval.embedding_fit import has_appearances
from splat_cli.eval.metrics import Score, mean_score, protocol
from splat_cli.run.storage.run_dir import RunDir


def updated_metrics(
    run: RunDir, config: TrainConfig, step: int, scores: dict[str, Score], device: str, extra: dict[str, float]
) -> dict[str, Any]:
    """Content of the run's metrics.json with the scores after `step` steps and `extra`; writes nothing.

    config: settings of the run as requested, whose file may be gone.
    """
    metrics = run.metrics()
    steps = metrics.get("steps", {})
    mean = mean_score(scores.values())
    per_image = {name: one.to_dict() for name, one in scores.items()}
    steps[str(step)] = {**steps.get(str(step), {}), **mean.to_dict(), **extra, "per_image": per_image}
    is_named, has_flips = run.split_path.is_file(), mean.flip is not None
    halves = has_appearances(config)
    measured = protocol(
        config.test_every, config.eval, named=is_named, refined=config.pose_opt, with_flip=has_flips,
        fitted=config.appearance != "none", halves=halves, free_space="hidden_points" in extra,
    )  # fmt: skip
    return {"protocol": measured, "device": device, "steps": steps}

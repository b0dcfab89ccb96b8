"""Results of a run: its summary in result.json, and its scores in metrics.json."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from splat_cli.config import TrainConfig
from splat_cli.errors import FormatError
from splat_cli.eval.held_out_fit import has_appearances
from splat_cli.eval.metrics import Score, mean_score, protocol
from splat_cli.run.storage.run_dir import RunDir


@dataclass(frozen=True)
class RunSummary:
    """Summary of a run. seconds: training time, without reading, saving and evaluation."""

    run: RunDir
    steps: int
    num_splats: int
    seconds: float
    score: Score | None
    nonfinite_counts: dict[str, int]

    def lines(self) -> list[str]:
        """Score, if photographs were held out, and paths, as lines of text."""
        lines = [f"Run: {self.run.path}", f"Splats: {self.run.ply_path(self.steps)}"]
        if self.score is not None:
            lines.insert(0, f"Held-out photographs: PSNR {self.score.psnr:.2f}, SSIM {self.score.ssim:.4f}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON: content of result.json and output of `--json`."""
        measured = self.score.to_dict() if self.score else {}
        return {
            "run": str(self.run.path),
            "ply": str(self.run.ply_path(self.steps)),
            "steps": self.steps,
            "num_splats": self.num_splats,
            "seconds": round(self.seconds, 3),
            **measured,
            **self.nonfinite_counts,
        }


def read_result(run: RunDir) -> RunSummary:
    """The result of a finished run. FormatError if the file is damaged."""
    content = run.result()
    measured = {field.name: content[field.name] for field in dataclasses.fields(Score) if field.name in content}
    try:
        score = Score(**measured) if measured else None
        others = content["steps"], content["num_splats"], content["seconds"]
        bad = {name: content[name] for name in ("skipped_updates", "skipped_steps", "removed_splats")}
    except (KeyError, TypeError) as error:
        raise FormatError(f"{run.result_path} lacks {error}: remove the file, and resume the run") from error
    return RunSummary(run, *others, score, bad)


def updated_metrics(
    run: RunDir,
    config: TrainConfig,
    step: int,
    scores: dict[str, Score],
    device: str,
    extra: dict[str, float],
    lpips: str | None = None,
) -> dict[str, Any]:
    """Content of the run's metrics.json with the scores after `step` steps and `extra`; writes nothing.

    config: settings of the run as requested; config.toml may be missing. lpips: network of LPIPS, if computed.
    """
    metrics = run.metrics()
    steps = metrics.get("steps", {})
    mean = mean_score(scores.values())
    per_image = {name: one.to_dict() for name, one in scores.items()}
    steps[str(step)] = {**steps.get(str(step), {}), **mean.to_dict(), **extra, "per_image": per_image}
    named, halves = run.split_path.is_file(), has_appearances(config)
    free_space = "hidden_points" in extra
    measured = protocol(config, mean, named=named, halves=halves, free_space=free_space, lpips=lpips)
    return {"protocol": measured, "device": device, "steps": steps}

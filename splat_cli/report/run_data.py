"""Content of a run's folder, finished or not."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from splat_cli.config import TrainConfig
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.storage.train_log import sum_phases


@dataclass(frozen=True)
class RunData:
    """A run, read from its files.

    provenance: scene, device and version. figures: log entries of training. warnings: (step, text). phases: seconds by
    phase, over all sessions. metrics: scores by step. trials: content of trials.json. step: the last known step.
    """

    run: RunDir
    config: TrainConfig
    provenance: dict[str, str]
    figures: list[dict[str, Any]]
    warnings: list[tuple[int, str]]
    phases: dict[str, float]
    metrics: dict[int, dict[str, Any]]
    protocol: str
    trials: dict[str, Any]
    step: int
    when: datetime

    @property
    def is_finished(self) -> bool:
        return self.step >= self.config.num_steps

    @property
    def seen(self) -> str:
        """How the evaluated photographs were used: "held out" with --eval, else "trained on"."""
        return "held out" if self.config.eval else "trained on"

    @property
    def measured(self) -> dict[str, Any]:
        """The last scores; empty without an evaluation."""
        return self.metrics[max(self.metrics)] if self.metrics else {}


def read_run_data(run: RunDir) -> RunData:
    """Read config.toml, train.jsonl, metrics.json and the names of saved splats."""
    lines = run.log.entries()
    metrics = run.metrics()
    last_written = run.log.path if run.log.path.is_file() else run.config_path
    return RunData(
        run=run,
        config=run.config(),
        provenance=run.provenance(),
        figures=[line for line in lines if "loss" in line],
        warnings=[(line["step"], line["warning"]) for line in lines if "warning" in line],
        phases=sum_phases(lines),
        metrics={int(step): entry for step, entry in metrics.get("steps", {}).items()},
        protocol=metrics.get("protocol", ""),
        trials=run.trials(),
        step=max([line["step"] for line in lines] + run.saved_steps(), default=0),
        when=datetime.fromtimestamp(last_written.stat().st_mtime),
    )

"""Settings: run."""

from dataclasses import dataclass
from typing import ClassVar

from splat_cli.config.setting import setting

MAX_GPUS = 16


@dataclass(frozen=True)
class RunSettings:
    """Length of the run, evaluation, checkpoints and logs."""

    GROUP: ClassVar[str] = "Run"

    steps: int | None = setting(
        None,
        "Number of training steps; by default 120 per training photograph, 10,000 to 20,000; half or twice as "
        "many, or 15,000, if --trials decides so.",
        low=1,
        high=10_000_000,  # the order of the photographs is drawn before the first step
        common=True,
    )
    trials: bool = setting(
        True,
        "Without --steps and --free-space, decide by short runs on small photographs whether to train with "
        "--free-space 1 --dropout 0.3 and half the steps, twice the steps with --batch 8, a higher --splat-budget, or "
        "--appearance exposure; only with 10 to 250 training photographs, and if splats alone are trained.",
    )
    gpus: int = setting(
        1,
        "Number of GPUs that train together, each on its part of a batch; with --device cpu, processes.",
        low=1,
        high=MAX_GPUS,
        common=True,
        not_in_city=True,
    )
    batch: int | None = setting(
        None,
        "Number of steps (photographs) whose mean gradient makes one update; by default 4 in runs of at least 5,000 "
        "steps on at least 40 photographs that train splats alone, 8 from 15,000 steps and 167 photographs on or by "
        "--trials, otherwise the value of --gpus.",
        low=1,
        high=64,
        fixed=True,
    )
    seed: int = setting(0, "Random seed.", low=0, high=2**31 - 1, common=True, fixed=True)
    save_at: tuple[int, ...] | None = setting(
        None,
        "Steps after which the splats are saved and, with --eval, evaluated, in addition to the last step; by "
        "default 7000.",
        low=1,
        common=True,
    )
    eval: bool = setting(False, "Hold out test photographs and evaluate on them.", common=True, fixed=True)
    test_every: int = setting(
        8,
        "Hold out every Nth photograph in order of their names, starting with the first.",
        low=2,
        fixed=True,
        needs="--eval",
        idle_with="--split",
    )
    split_by: str = setting(
        "interval",
        "Hold out every Nth photograph (interval), or the same number in up to three contiguous parts of the camera "
        "path (sector).",
        choices=("interval", "sector"),
        fixed=True,
        needs="--eval",
        idle_with="--split",
    )
    split: str | None = setting(
        None,
        "Hold out the photographs listed in this file (one name per line, or JSON).",
        metavar="FILE",
        fixed=True,
        needs="--eval",
    )
    deterministic: bool = setting(
        False,
        "Give bit-identical results for the same seed; slower: fixed order of summation, on the CPU a single core.",
    )
    keep: int = setting(2, "Number of checkpoints to keep, about 300 bytes per splat each; 0 writes none.", low=0)
    checkpoint_every: int = setting(5000, "Steps between checkpoints; 0 saves by time only.", low=0, needs="--keep")
    checkpoint_minutes: float = setting(
        10.0, "Longest time between checkpoints, in minutes; 0 saves by steps only.", low=0, needs="--keep"
    )
    tensorboard: bool = setting(False, "Write TensorBoard logs to RUN/tensorboard; needs the extra `tensorboard`.")
    report: bool = setting(
        True, "Write report.html, with the scene in 3D, pictures and curves, at the end of training."
    )
    report_size: float = setting(
        12.0,
        "Maximum size of the report in MB. Scenes that do not fit are shown with fewer splats; 0 leaves the scene out.",
        low=0,
        needs="--report",
    )

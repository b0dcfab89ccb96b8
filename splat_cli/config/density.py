"""Settings: density control."""

from dataclasses import dataclass
from typing import ClassVar

from splat_cli.config.setting import setting


@dataclass(frozen=True)
class DensitySettings:
    """Densification strategy, number of splats, schedule and thresholds."""

    GROUP: ClassVar[str] = "Density control"

    strategy: str = setting(
        "default",
        "Densification strategy; default: splits in runs under 5,000 steps, copies otherwise.",
        choices=("default", "splits", "copies", "adc", "mcmc"),
    )
    max_splats: int = setting(
        1_000_000,
        "Maximum number of splats.",
        low=1,
        high=2**28,  # the kernels' limit: MAX_SPLATS in gaussians/splats.py
        common=True,
    )
    offload: str = setting(
        "auto",
        "Keep moments and view-dependent colours in host memory, which is slower, with the same quality: as many as "
        "needed if splats would not fit on the device (auto), all (on) or none (off). On one GPU.",
        choices=("auto", "on", "off"),
        single_gpu=("on",),
        batches=True,
    )
    max_memory: float | None = setting(
        None, "Maximum device memory, in GiB; other splats are offloaded or left out.", low=0.001, common=True
    )
    splat_budget: float | None = setting(
        None,
        "Target number of splats, relative to (number of training pixels, at least 700,000 per photograph)^(2/3), "
        "with few photographs to (number of training pixels)^(2/3); 0: --max-splats. By default 1.74, or more by "
        "--trials; with few photographs 0.44 or 0.87; in runs of 15,000 steps and more on at least 167 photographs "
        "2.15.",
        low=0,
    )
    densify_start: int | None = setting(
        None, "Step after which densification starts; by default 1/60 of the run.", low=0
    )
    densify_stop: int | None = setting(None, "Step at which densification stops; by default 2/3 of the run.", low=0)
    densify_interval: int = setting(100, "Steps between rounds of densification and pruning.", low=1)
    grad_threshold: float = setting(
        2e-4,
        "Mean screen-space gradient from which a splat is cloned or split.",
        low=0,
        needs="--strategy adc",
    )
    absgrad: bool = setting(
        False,
        "Sum absolute values of screen-space gradients (AbsGS); needs about 4 times the --grad-threshold.",
        needs="--strategy adc",
    )
    prune_opacity: float = setting(0.005, "Opacity under which splats are pruned.", low=0, high=1)
    relocate_unseen: bool = setting(
        True,
        "Relocate splats that no training view shows, and remove those that remain at the end.",
        idle_with="--strategy adc",
    )
    opacity_reset_interval: int = setting(
        3000, "Steps between resets of all opacities to nearly 0.", low=1, needs="--strategy adc"
    )
    score_views: int = setting(
        10,
        "Number of training views in which error-guided strategies rate splats before each round.",
        low=1,
        idle_with="--strategy adc or --strategy mcmc",
    )
    growth_rate: float = setting(
        0.05,
        "Maximum growth per round, as a fraction of all splats, in a run of 30,000 steps; faster in shorter runs.",
        low=0,
        high=1,
        idle_with="--strategy adc",
    )

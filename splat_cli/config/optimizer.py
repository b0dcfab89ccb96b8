"""Settings: loss and optimiser."""

from dataclasses import dataclass
from typing import ClassVar

from splat_cli.config.setting import setting


@dataclass(frozen=True)
class OptimizerSettings:
    """Weights of the loss, regularisers and learning rates."""

    GROUP: ClassVar[str] = "Loss and optimiser"

    lr_background: float = setting(
        1e-2, "Learning rate of the background; decays to a tenth.", low=0, needs="--background learned"
    )
    ssim_weight: float = setting(0.2, "Weight of 1 - SSIM in the loss; the rest is L1.", low=0, high=1)
    coarse_until: float | None = setting(
        None,
        "Fraction of the steps trained on downscaled photographs, which is faster; 0 disables it. By default 0.3 on "
        "photographs of 200,000 pixels and more if splats alone are trained (0.6 with two levels; 0.45 in "
        "runs of at least 15,000 steps on at least 167 smaller ones), otherwise 0.",
        low=0,
        high=0.95,
    )
    coarse_levels: int | None = setting(
        None,
        "With reduced resolutions, their number, each half of the next (1: half; 2: a quarter, then half, with fewer "
        "splats). By default 2 on photographs of a million pixels and more in at least 10,000 steps, otherwise 1.",
        low=1,
        high=4,
    )
    robust: bool = setting(
        False,
        "Mask transient objects (people, cars) out of the loss: pixels with outlying errors, after the first tenth of "
        "the steps.",
        common=True,
        fixed=True,
        single_gpu=True,
    )
    robust_threshold: float = setting(
        3.0,
        "Error threshold of outliers, relative to the upper quartile of all pixels' errors.",
        low=1,
        needs="--robust",
    )
    visible_adam: bool = setting(
        False,
        "Update only the splats that a photograph of the batch shows, which makes steps of millions of splats faster. "
        "The others get no momentum, regularisation or position noise in that step.",
    )
    lr_means: float = setting(
        1.6e-4,
        "Initial learning rate of positions, relative to the scene's size (geometric mean of the cameras' extent and "
        "viewing distance); scaled by sqrt(30,000 / steps) in runs under 30,000 steps; with --local-frame-adam, the "
        "rate of a splat of 0.004 times the scene's size.",
        low=0,
    )
    lr_means_final: float = setting(
        1.6e-6,
        "Final learning rate of positions; the decay is exponential.",
        low=0,
        idle_with="--lr-means 0",
    )
    local_frame_adam: bool = setting(
        True,
        "Optimise positions in each splat's local frame, with steps proportional to its size; off: in world space, as "
        "in 3DGS.",
        fixed=True,
        idle_with="--lr-means 0",
    )
    lr_sh0: float = setting(2.5e-3, "Learning rate of the base colour.", low=0)
    lr_shN: float = setting(
        1.5e-4,
        "Learning rate of the view-dependent colour where 30 photographs show a point on average; scales with that "
        "number, and in runs under 120 visits per photograph with (120 / visits)^0.75.",
        low=0,
        needs="--sh-degree",
    )
    lr_field: float = setting(5e-3, "Learning rate of the colour field.", low=0, needs="--color field")
    lr_field_features: float = setting(
        5e-3, "Learning rate of the splats' feature vectors.", low=0, needs="--field-features"
    )
    lr_opacities: float = setting(0.05, "Learning rate of opacities (logits).", low=0)
    lr_scales: float = setting(
        1e-2, "Learning rate of log scales; scaled in runs under 30,000 steps like --lr-means.", low=0
    )
    lr_quats: float = setting(
        1e-3, "Learning rate of rotations (quaternions); scaled in runs under 30,000 steps like --lr-means.", low=0
    )
    lr_decay: float = setting(0.1, "Final factor of all learning rates except --lr-means.", low=1e-6, high=1)
    lr_decay_start: int | None = setting(
        None, "First step of the exponential decay by --lr-decay; by default half of the run.", low=0
    )
    depth_weight: float | None = setting(
        None,
        "Weight in the loss of the difference to the inverse depths of depth maps or, without these, of the dataset's "
        "points; decays to a hundredth; by default 0.1 with depth maps, otherwise 0.",
        low=0,
        single_gpu=True,
    )
    free_space: float | None = setting(
        None,
        "Weight in the loss of the mean squared opacity between cameras and the dataset's points that they see, or, "
        "without these, points of the plane sweep; by default 0.1 with points and --appearance grid, otherwise 0, or 1 "
        "(--trials). Internet photo collections benefit from 1 (--preset phototourism).",
        low=0,
    )
    opacity_reg: float = setting(0.01, "Weight of the mean opacity in the loss.", low=0, idle_with="--lr-opacities 0")
    scale_reg: float = setting(
        0.01,
        "Weight in the loss of the mean scale, in units of a fifth of the scene's size.",
        low=0,
        idle_with="--lr-scales 0",
    )
    dropout: float | None = setting(
        None,
        "Fraction of splats dropped at random in each step, to reduce overfitting (DropGaussian). By default 0.025 "
        "per 1,000 splats per photograph, less for over 120 photographs or under 120 visits per photograph, more for "
        "over 150 visits, at most 0.25; 0 in most runs under 5,000 steps; 0.3 where trials choose --free-space.",
        low=0,
        high=0.5,
    )
    noise_scale: float | None = setting(
        None,
        "Position noise of transparent splats, relative to their learning rate (3DGS-MCMC: 500,000), in units of a "
        "fifth of the scene's size; by default 30,000, in runs under 5,000 steps 0.",
        low=0,
        idle_with="--strategy adc or --lr-means 0",
    )

"""Settings of a training run: the single declaration of command-line options, presets, config.toml and docs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from splat_cli.settings import Setting, setting, settings_of

_RUN = "Run"
_SCENE = "Dataset"
_MODEL = "Splats and rendering"
_OPTIMIZER = "Loss and optimiser"
_CAMERAS = "Camera poses and appearance"
_DENSITY = "Density control"


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one run, checked on construction: UsageError names the setting, its value and what was expected."""

    steps: int | None = setting(
        None,
        "Number of training steps; by default 120 per training photograph, at least 15,000 and at most 30,000.",
        group=_RUN,
        low=1,
    )
    seed: int = setting(0, "Random seed.", group=_RUN, low=0, high=2**31 - 1)
    save_at: tuple[int, ...] = setting(
        (7000,),
        "Steps after which the splats are saved and, with --eval, evaluated; always done after the last step.",
        group=_RUN,
        low=1,
    )
    eval: bool = setting(False, "Hold out test photographs and evaluate on them.", group=_RUN)
    test_every: int = setting(
        8,
        "With --eval, hold out every Nth photograph in order of their names, starting with the first.",
        group=_RUN,
        low=2,
    )

    split: str | None = setting(
        None,
        "With --eval, hold out the photographs listed in this file (one name per line, or JSON).",
        group=_RUN,
        metavar="FILE",
    )

    deterministic: bool = setting(
        False,
        "Give bit-identical results for the same seed; slower: fixed order of summation, on the CPU a single core.",
        group=_RUN,
    )
    keep: int = setting(
        2, "Number of checkpoints to keep, about 700 bytes per splat each; 0 writes none.", group=_RUN, low=0
    )
    checkpoint_every: int = setting(5000, "Steps between checkpoints; 0 saves by time only.", group=_RUN, low=0)
    checkpoint_minutes: float = setting(
        10.0, "Longest time between checkpoints, in minutes; 0 saves by steps only.", group=_RUN, low=0
    )
    tensorboard: bool = setting(
        False, "Write TensorBoard logs to RUN/tensorboard; needs the extra `tensorboard`.", group=_RUN
    )
    report: bool = setting(True, "Write report.html, with pictures and curves, at the end of training.", group=_RUN)

    format: str = setting(
        "auto",
        "Dataset format; auto uses the first one found, in this order.",
        group=_SCENE,
        choices=("auto", "colmap", "blender", "transforms"),
    )
    images: str | None = setting(
        None, "Folder of the photographs; by default SCENE/images.", group=_SCENE, metavar="DIR"
    )
    max_size: int | None = setting(
        None,
        "Maximum length of a photograph's longer side, in pixels; larger photographs are downscaled.",
        group=_SCENE,
        low=16,
    )
    downscale: int = setting(
        1, "Downscale photographs by this factor; uses SCENE/images_N if it exists.", group=_SCENE, low=1, high=64
    )
    masks: str | None = setting(
        None,
        "Folder of masks (NAME.png or NAME.jpg.png; black pixels are ignored); by default SCENE/masks; none: no masks.",
        group=_SCENE,
        metavar="DIR",
    )
    invert_masks: bool = setting(False, "Ignore the white pixels of masks instead of the black ones.", group=_SCENE)
    image_memory: float | None = setting(
        None,
        "Memory for decoded photographs, in GiB; by default half of the free memory. The rest are decoded on demand.",
        group=_SCENE,
        low=1e-6,
    )
    min_track_length: int = setting(
        0, "Ignore COLMAP points that are seen in fewer photographs than this.", group=_SCENE, low=0
    )
    max_point_error: float | None = setting(
        None, "Ignore COLMAP points with a reprojection error larger than this, in pixels.", group=_SCENE, low=0
    )
    crop: str | None = setting(
        None,
        "Region to export: sphere x,y,z,radius or box x0,y0,z0,x1,y1,z1, in world units; training is not cropped.",
        group=_SCENE,
        metavar="X,Y,...",
    )
    crop_start: bool = setting(False, "With --crop, initialise splats inside the region only.", group=_SCENE)

    sh_degree: int = setting(
        3, "Degree of the spherical harmonics of view-dependent colour.", group=_MODEL, low=0, high=3
    )
    color: str = setting(
        "sh",
        "Colour model: spherical harmonics of each splat (sh) or one neural field shared by all splats (field).",
        group=_MODEL,
        choices=("sh", "field"),
    )
    field_table_size: int = setting(
        2**17,
        "With --color field, number of entries of each of the 8 hash tables.",
        group=_MODEL,
        low=2**10,
        high=2**24,
    )
    field_direction_degree: int = setting(
        3,
        "With --color field, SH degree of the encoded view direction; 4 sharpens reflections, but not in PLY files.",
        group=_MODEL,
        low=1,
        high=4,
    )
    field_appearance: int = setting(
        0,
        "With --color field, size of each photograph's appearance embedding (exposure, weather); 0 disables it.",
        group=_MODEL,
        low=0,
        high=64,
    )
    field_moves: bool = setting(
        False,
        "With --color field, propagate the gradients of its colours to the positions of the splats.",
        group=_MODEL,
    )
    sh_degree_interval: int | None = setting(
        None,
        "Steps between increments of the SH degree, starting at 0; by default 1/30 of the run.",
        group=_MODEL,
        low=1,
    )
    init: str = setting(
        "auto",
        "Initial points: the dataset's (points), from plane-sweep stereo (sweep) or random; auto: points and sweep.",
        group=_MODEL,
        choices=("auto", "points", "sweep", "random"),
    )
    init_points: int = setting(
        100_000,
        "Number of pixels whose depth the plane sweep estimates, or number of random points.",
        group=_MODEL,
        low=1,
    )
    init_from: str | None = setting(
        None,
        "File of splats to start from instead of points; a random subset if they are more than --max-splats.",
        group=_MODEL,
        metavar="FILE",
    )
    init_opacity: float | None = setting(
        None,
        "Initial opacity of splats made from points; by default 0.5, in runs under 5,000 steps 0.1.",
        group=_MODEL,
        low=0.005,
        high=0.99,
    )
    init_scale: float | None = setting(
        None,
        "Initial size of splats made from points, relative to the distance to their neighbours; by default 0.1, in "
        "runs under 5,000 steps 1.",
        group=_MODEL,
        low=0.01,
        high=10,
    )
    antialias: bool = setting(
        True,
        "Dilate splats by 0.1 px^2 and compensate their opacity (Mip-Splatting); off: dilate by 0.3 px^2, as in most "
        "viewers.",
        group=_MODEL,
    )
    smooth_3d: float = setting(
        0.0,
        "Variance of the 3D smoothing filter (Mip-Splatting: 0.2), in squared pixel widths of the nearest photograph; "
        "0 disables it.",
        group=_MODEL,
        low=0,
        high=10,
    )
    background: str = setting(
        "black", "Background colour in training.", group=_MODEL, choices=("black", "white", "random", "learned")
    )

    lr_background: float = setting(
        1e-2, "Learning rate of a learned background; decays to a tenth.", group=_OPTIMIZER, low=0
    )
    ssim_weight: float = setting(
        0.2, "Weight of 1 - SSIM in the loss; L1 has the rest.", group=_OPTIMIZER, low=0, high=1
    )
    robust: bool = setting(
        False,
        "Mask transient objects (people, cars) out of the loss: pixels with outlying errors, after the first tenth of "
        "the steps.",
        group=_OPTIMIZER,
    )
    robust_threshold: float = setting(
        3.0,
        "With --robust, error threshold of outliers, relative to the upper quartile of all pixels' errors.",
        group=_OPTIMIZER,
        low=1,
    )
    optimizer: str = setting(
        "dense",
        "Adam on all splats (dense) or on visible splats only (visible).",
        group=_OPTIMIZER,
        choices=("dense", "visible"),
    )
    lr_means: float = setting(
        1.6e-4,
        "Initial learning rate of positions, relative to the scene's size (geometric mean of the cameras' extent and "
        "viewing distance); scaled by sqrt(30,000 / steps) in runs under 30,000 steps; with --local-frame-adam, that "
        "of a splat of 0.004 times the scene's size.",
        group=_OPTIMIZER,
        low=0,
    )
    lr_means_final: float = setting(
        1.6e-6, "Final learning rate of positions; the decay is exponential.", group=_OPTIMIZER, low=0
    )
    local_frame_adam: bool = setting(
        True,
        "Optimise positions in each splat's local frame, with steps proportional to its size; off: in world space, as "
        "in 3DGS.",
        group=_OPTIMIZER,
    )
    lr_sh0: float = setting(2.5e-3, "Learning rate of the base colour.", group=_OPTIMIZER, low=0)
    lr_shN: float = setting(
        1.5e-4,
        "Learning rate of the view-dependent colour for 100 photographs; scales with the square root of their number.",
        group=_OPTIMIZER,
        low=0,
    )
    lr_field: float = setting(5e-3, "Learning rate of the colour field.", group=_OPTIMIZER, low=0)
    lr_opacities: float = setting(0.05, "Learning rate of opacities (logits).", group=_OPTIMIZER, low=0)
    lr_scales: float = setting(
        1e-2,
        "Learning rate of log scales; scaled in runs under 30,000 steps, as --lr-means is.",
        group=_OPTIMIZER,
        low=0,
    )
    lr_quats: float = setting(
        1e-3,
        "Learning rate of rotations (quaternions); scaled in runs under 30,000 steps, as --lr-means is.",
        group=_OPTIMIZER,
        low=0,
    )

    lr_decay: float = setting(
        0.1,
        "Final factor of all learning rates except that of positions.",
        group=_OPTIMIZER,
        low=1e-6,
        high=1,
    )
    lr_decay_start: int | None = setting(
        None, "First step of that exponential decay; by default half of the run.", group=_OPTIMIZER, low=0
    )
    depth_weight: float = setting(
        0.0,
        "Weight in the loss of the difference to the inverse depths of the dataset's points; decays to a hundredth.",
        group=_OPTIMIZER,
        low=0,
    )
    opacity_reg: float = setting(0.01, "Weight of the mean opacity in the loss.", group=_OPTIMIZER, low=0)
    scale_reg: float = setting(
        0.01, "Weight in the loss of the mean scale, in units of a fifth of the scene's size.", group=_OPTIMIZER, low=0
    )
    dropout: float | None = setting(
        None,
        "Fraction of splats dropped at random in each step, to reduce co-adaptation (DropGaussian); by default "
        "0.05, less for over 120 photographs, more for over 150 visits of each, 0 in runs under 5,000 steps.",
        group=_OPTIMIZER,
        low=0,
        high=0.5,
    )
    noise_scale: float | None = setting(
        None,
        "Position noise of transparent splats, relative to their learning rate (3DGS-MCMC: 500,000), in units of a "
        "fifth of the scene's size; by default 30,000, in runs under 5,000 steps 0.",
        group=_OPTIMIZER,
        low=0,
    )

    pose_opt: bool = setting(
        False, "Refine the camera poses: first on small photographs, then jointly with the splats.",
        group=_CAMERAS,
    )  # fmt: skip
    pose_travel: float = setting(
        0.5,
        "With --pose-opt, limit of a camera's rotation, in degrees, and of its translation, as the same angle in "
        "radians times the scene's extent; on the small photographs before training, 4 and 2 times as much.",
        group=_CAMERAS,
        low=0,
        high=45,
    )

    appearance: str = setting(
        "none",
        "Colour correction trained for each photograph and not applied to other renders: one affine map (exposure) or "
        "a bilateral grid of affine maps (grid).",
        group=_CAMERAS,
        choices=("none", "exposure", "grid"),
    )
    lr_exposure: float = setting(5e-3, "Initial learning rate of exposures.", group=_CAMERAS, low=0)
    lr_exposure_final: float = setting(
        5e-4, "Final learning rate of exposures; the decay is exponential.", group=_CAMERAS, low=0
    )
    exposure_reg: float = setting(
        0.01, "Weight in the loss of the squared difference of exposures from the identity.", group=_CAMERAS, low=0
    )
    lr_grid: float = setting(5e-3, "Learning rate of bilateral grids; decays to a tenth.", group=_CAMERAS, low=0)
    grid_smoothness: float = setting(
        100.0,
        "Weight in the loss of the mean squared difference of a grid's neighbouring values.",
        group=_CAMERAS,
        low=0,
    )

    strategy: str = setting(
        "default",
        "Densification strategy; default: splits in runs under 5,000 steps, copies otherwise.",
        group=_DENSITY,
        choices=("default", "splits", "copies", "adc", "mcmc"),
    )
    max_splats: int = setting(1_000_000, "Maximum number of splats.", group=_DENSITY, low=1)
    max_memory: float | None = setting(
        None, "Maximum device memory, in GiB; lowers --max-splats to fit.", group=_DENSITY, low=0.001
    )
    splat_budget: float = setting(
        1.74,
        "Target number of splats, relative to (number of training pixels)^(2/3); 0: --max-splats.",
        group=_DENSITY,
        low=0,
    )
    densify_start: int | None = setting(
        None, "Step after which densification starts; by default 1/60 of the run.", group=_DENSITY, low=0
    )
    densify_stop: int | None = setting(
        None, "Step at which densification stops; by default 2/3 of the run.", group=_DENSITY, low=0
    )
    densify_interval: int = setting(100, "Steps between rounds of densification and pruning.", group=_DENSITY, low=1)
    grad_threshold: float = setting(
        2e-4,
        "With --strategy adc, mean screen-space gradient from which a splat is cloned or split.",
        group=_DENSITY,
        low=0,
    )
    absgrad: bool = setting(
        False,
        "Sum absolute values of screen-space gradients (AbsGS); needs about 4 times the --grad-threshold.",
        group=_DENSITY,
    )
    prune_opacity: float = setting(0.005, "Opacity under which splats are pruned.", group=_DENSITY, low=0, high=1)
    opacity_reset_interval: int = setting(
        3000, "With --strategy adc, steps between resets of all opacities to nearly 0.", group=_DENSITY, low=1
    )

    score_views: int = setting(
        10,
        "Number of training views in which error-guided strategies rate splats before each round.",
        group=_DENSITY,
        low=1,
    )
    growth_rate: float = setting(
        0.05,
        "Maximum growth per round, as a fraction of all splats, in a run of 30,000 steps; faster in shorter runs.",
        group=_DENSITY,
        low=0,
        high=1,
    )

    def __post_init__(self) -> None:
        for name, declared in SETTINGS.items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))

    @property
    def num_steps(self) -> int:
        """Number of training steps of a resolved configuration."""
        assert self.steps is not None, "num_steps is read before the plan is resolved"
        return self.steps

    @property
    def trained_sh_degree(self) -> int:
        """SH degree of the splats' own colours: 0 with a colour field."""
        return 0 if self.color == "field" else self.sh_degree


@dataclass(frozen=True)
class ResolvedConfig(TrainConfig):
    """Settings of a run with all defaults resolved that depend on the scene or on --steps.

    Made once, by `run.plan.resolve_plan`. Learning rates include the factors for short runs and for the number of
    photographs, `growth_rate` and `noise_scale` those for short runs; `strategy` is never "default"; `max_splats`
    respects the splat budget and the memory.
    """

    if TYPE_CHECKING:  # no longer optional
        steps: int = 0
        sh_degree_interval: int = 0
        init_opacity: float = 0.0
        init_scale: float = 0.0
        densify_start: int = 0
        densify_stop: int = 0
        lr_decay_start: int = 0
        dropout: float = 0.0
        noise_scale: float = 0.0


SETTINGS: dict[str, Setting] = settings_of(TrainConfig)

ALIASES = {"own_axes": "local_frame_adam", "probe_views": "score_views"}
"""Former names of settings, still accepted in TOML files and in the config.toml of earlier runs."""

FLAGS: dict[str, tuple[str, dict[bool, str]]] = {"exposure": ("appearance", {False: "none", True: "exposure"})}
"""Former boolean settings -> the setting that replaces them, and its values for off and on."""

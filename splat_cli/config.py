"""Every setting of a training run, declared once: options, presets, saved configuration and docs come from here."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from splat_cli.settings import Setting, setting, settings_of

_RUN = "Run"
_SCENE = "Photographs"
_MODEL = "Splats and rendering"
_OPTIMIZER = "Loss and optimiser"
_CAMERAS = "Cameras and appearance"
_DENSITY = "Density control"


@dataclass(frozen=True)
class TrainConfig:
    """Settings of one run, checked on construction: UsageError names the setting, its value and what was expected."""

    steps: int | None = setting(
        None,
        "Training steps; by default 120 for each training photograph, at least 15,000 and at most 30,000.",
        group=_RUN,
        low=1,
    )
    seed: int = setting(0, "Seed of every random choice.", group=_RUN, low=0, high=2**31 - 1)
    save_at: tuple[int, ...] = setting(
        (7000,),
        "Steps after which the splats are saved, with --eval also measured; the last step always is.",
        group=_RUN,
        low=1,
    )
    eval: bool = setting(False, "Hold out some photographs and measure on them.", group=_RUN)
    test_every: int = setting(
        8, "With --eval, hold out every Nth photograph of the name-sorted list, from the first.", group=_RUN, low=2
    )

    split: str | None = setting(
        None,
        "With --eval, hold out the photographs that this file names, one a line (or JSON).",
        group=_RUN,
        metavar="FILE",
    )

    deterministic: bool = setting(
        False, "Same seed, same bits: sums in a fixed order, which is slower (on the CPU: one core).", group=_RUN
    )
    keep: int = setting(2, "Checkpoints kept, each about 700 bytes a splat; 0 for none.", group=_RUN, low=0)
    checkpoint_every: int = setting(5000, "Steps between two checkpoints; 0: only by time.", group=_RUN, low=0)
    checkpoint_minutes: float = setting(
        10.0, "Minutes after which a checkpoint is saved in any case; 0: only by steps.", group=_RUN, low=0
    )
    tensorboard: bool = setting(
        False, "Write what TensorBoard shows to RUN/tensorboard; needs the extra `tensorboard`.", group=_RUN
    )
    report: bool = setting(True, "Write report.html at the end, with pictures and curves for people.", group=_RUN)

    format: str = setting(
        "auto",
        "Format of the scene; auto takes the first that is there.",
        group=_SCENE,
        choices=("auto", "colmap", "blender", "transforms"),
    )
    images: str | None = setting(
        None, "Folder of the photographs, if it is not SCENE/images.", group=_SCENE, metavar="DIR"
    )
    max_size: int | None = setting(
        None, "Shrink photographs whose longer side has more pixels than this.", group=_SCENE, low=16
    )
    downscale: int = setting(
        1, "Shrink photographs by this factor; SCENE/images_N is used where it is there.", group=_SCENE, low=1, high=64
    )
    masks: str | None = setting(
        None,
        "Folder of masks (NAME.png or NAME.jpg.png, black: does not count), if it is not SCENE/masks; none: use none.",
        group=_SCENE,
        metavar="DIR",
    )
    invert_masks: bool = setting(False, "White instead of black pixels of masks do not count.", group=_SCENE)
    image_memory: float | None = setting(
        None,
        "Memory for photographs, in GiB, by default half of what is free; others are decoded when they are needed.",
        group=_SCENE,
        low=1e-6,
    )
    min_track_length: int = setting(
        0, "Leave out COLMAP's points that fewer photographs than this show.", group=_SCENE, low=0
    )
    max_point_error: float | None = setting(
        None, "Leave out COLMAP's points with a larger reprojection error, in pixels.", group=_SCENE, low=0
    )
    crop: str | None = setting(
        None,
        "Sphere x,y,z,radius or box x0,y0,z0,x1,y1,z1, in world units, to which export cuts; training sees all.",
        group=_SCENE,
        metavar="X,Y,...",
    )
    crop_start: bool = setting(False, "With --crop, start only from points in it.", group=_SCENE)

    sh_degree: int = setting(3, "Degree of the spherical harmonics of colour.", group=_MODEL, low=0, high=3)
    color: str = setting(
        "sh",
        "Colour by each splat's spherical harmonics (sh) or by a network that all share (field).",
        group=_MODEL,
        choices=("sh", "field"),
    )
    field_table_size: int = setting(
        2**17, "Entries of each of the 8 hash tables of --color field.", group=_MODEL, low=2**10, high=2**24
    )
    field_direction_degree: int = setting(
        3,
        "Degree in which --color field sees directions: with 4 it tells reflections better than PLY files can show.",
        group=_MODEL,
        low=1,
        high=4,
    )
    field_appearance: int = setting(
        0,
        "With --color field, numbers that describe how each photograph looks (exposure, weather); 0: all look alike.",
        group=_MODEL,
        low=0,
        high=64,
    )
    field_moves: bool = setting(
        False, "With --color field, let the gradients of its colours move splats, too.", group=_MODEL
    )
    sh_degree_interval: int | None = setting(
        None, "Steps between two degrees, from degree 0 on; by default a 30th of the run.", group=_MODEL, low=1
    )
    init: str = setting(
        "auto",
        "Start from the scene's points, from what a sweep over depths finds, or random points; auto: both the first.",
        group=_MODEL,
        choices=("auto", "points", "sweep", "random"),
    )
    init_points: int = setting(
        100_000, "Pixels whose depth the sweep looks for, or number of random points.", group=_MODEL, low=1
    )
    init_from: str | None = setting(
        None,
        "File of splats to start from in place of points; where it holds more than may be, a random choice of them.",
        group=_MODEL,
        metavar="FILE",
    )
    init_opacity: float | None = setting(
        None,
        "Opacity of a splat made from a point; by default 0.5, in short runs 0.1.",
        group=_MODEL,
        low=0.005,
        high=0.99,
    )
    init_scale: float | None = setting(
        None,
        "Size of a splat made from a point, times the distance to its neighbours; by default 0.1, in short runs 1.",
        group=_MODEL,
        low=0.01,
        high=10,
    )
    antialias: bool = setting(
        True,
        "Widen splats by 0.1 px^2 and keep what each covers (Mip-Splatting); off: by 0.3 px^2, as most viewers do.",
        group=_MODEL,
    )
    smooth_3d: float = setting(
        0.0,
        "Make no splat finer than this variance, in squares of a pixel's width in the nearest photograph of it "
        "(Mip-Splatting's 3D filter: 0.2); 0: no limit.",
        group=_MODEL,
        low=0,
        high=10,
    )
    background: str = setting(
        "black", "Colour behind the splats in training.", group=_MODEL, choices=("black", "white", "random", "learned")
    )

    lr_background: float = setting(
        1e-2, "Learning rate of a learned background, which shrinks to a tenth.", group=_OPTIMIZER, low=0
    )
    ssim_weight: float = setting(
        0.2, "Share of the loss that is 1 - SSIM; the rest is L1.", group=_OPTIMIZER, low=0, high=1
    )
    robust: bool = setting(
        False,
        "Leave pixels out of the loss that differ from the render far more than others do: people and cars that came "
        "and went. After the first tenth of the steps.",
        group=_OPTIMIZER,
    )
    robust_threshold: float = setting(
        3.0, "Error from which they do, times the upper quartile of all pixels' errors.", group=_OPTIMIZER, low=1
    )
    optimizer: str = setting(
        "dense",
        "Adam on all splats (dense) or only on those in view (visible).",
        group=_OPTIMIZER,
        choices=("dense", "visible"),
    )
    lr_means: float = setting(
        1.6e-4,
        "Learning rate of positions, times the scene's size (geometric mean of its extent and how far cameras look); "
        "times sqrt(30,000 / steps) in runs under 30,000 steps; with --local-frame-adam, for a splat 0.004 as large.",
        group=_OPTIMIZER,
        low=0,
    )
    lr_means_final: float = setting(
        1.6e-6, "The same at the last step; between them it decays exponentially.", group=_OPTIMIZER, low=0
    )
    local_frame_adam: bool = setting(
        True,
        "Move splats along their own axes, the further the larger they are; off: the world's, all alike, as in 3DGS.",
        group=_OPTIMIZER,
    )
    lr_sh0: float = setting(2.5e-3, "Learning rate of the base colour.", group=_OPTIMIZER, low=0)
    lr_shN: float = setting(
        1.5e-4,
        "Learning rate of the view-dependent colour for 100 photographs; grows with the root of their number.",
        group=_OPTIMIZER,
        low=0,
    )
    lr_field: float = setting(5e-3, "Learning rate of --color field.", group=_OPTIMIZER, low=0)
    lr_opacities: float = setting(0.05, "Learning rate of opacity (its logit).", group=_OPTIMIZER, low=0)
    lr_scales: float = setting(
        1e-2, "Learning rate of size (its logarithm); larger in short runs, as above.", group=_OPTIMIZER, low=0
    )
    lr_quats: float = setting(
        1e-3, "Learning rate of rotation; larger in short runs, as above.", group=_OPTIMIZER, low=0
    )

    lr_decay: float = setting(
        0.1,
        "What all learning rates but the positions' shrink to at the last step.",
        group=_OPTIMIZER,
        low=1e-6,
        high=1,
    )
    lr_decay_start: int | None = setting(
        None, "Step from which they shrink, exponentially; by default half of the run.", group=_OPTIMIZER, low=0
    )
    depth_weight: float = setting(
        0.0,
        "Weight of the difference from the inverse depths of the scene's points in the loss; a hundredth at the end.",
        group=_OPTIMIZER,
        low=0,
    )
    opacity_reg: float = setting(0.01, "Weight of the mean opacity in the loss.", group=_OPTIMIZER, low=0)
    scale_reg: float = setting(
        0.01, "Weight of the mean size in the loss, in units of a fifth of the scene's size.", group=_OPTIMIZER, low=0
    )
    dropout: float | None = setting(
        None,
        "Fraction of splats dropped at random in each step, to reduce co-adaptation (DropGaussian); by default "
        "0.05, less with over 120 photographs, more where each is visited over 150 times, 0 in runs under 5,000 steps.",
        group=_OPTIMIZER,
        low=0,
        high=0.5,
    )
    noise_scale: float | None = setting(
        None,
        "Noise on positions of transparent splats, times their learning rate (3DGS-MCMC: 500000), in units of a fifth "
        "of the scene's size; by default 30000, in short runs none.",
        group=_OPTIMIZER,
        low=0,
    )

    pose_opt: bool = setting(
        False, "Refine the poses of the cameras: before training on small photographs, then while training.",
        group=_CAMERAS,
    )  # fmt: skip
    pose_travel: float = setting(
        0.5,
        "Degrees by which a camera may turn in all of training (and shift by as many radians, times the scene's "
        "extent); before, on small photographs, four times and twice as far.",
        group=_CAMERAS,
        low=0,
        high=45,
    )

    appearance: str = setting(
        "none",
        "Train a change of colour for each photograph, which the splats go without: one affine map (exposure), or a "
        "bilateral grid of them over the picture and brightness (grid).",
        group=_CAMERAS,
        choices=("none", "exposure", "grid"),
    )
    lr_exposure: float = setting(5e-3, "Learning rate of exposures.", group=_CAMERAS, low=0)
    lr_exposure_final: float = setting(
        5e-4, "The same at the last step; between them it decays exponentially.", group=_CAMERAS, low=0
    )
    exposure_reg: float = setting(
        0.01, "Weight of the squared difference between an exposure and none in the loss.", group=_CAMERAS, low=0
    )
    lr_grid: float = setting(5e-3, "Learning rate of bilateral grids, which shrinks to a tenth.", group=_CAMERAS, low=0)
    grid_smoothness: float = setting(
        100.0,
        "Weight of the mean squared difference of a grid's neighbouring values in the loss.",
        group=_CAMERAS,
        low=0,
    )

    strategy: str = setting(
        "default",
        "How splats are added, relocated and removed; default: splits in runs under 5,000 steps, else copies.",
        group=_DENSITY,
        choices=("default", "splits", "copies", "adc", "mcmc"),
    )
    max_splats: int = setting(1_000_000, "No more splats than this.", group=_DENSITY, low=1)
    max_memory: float | None = setting(
        None, "Device memory to use, in GiB; fewer splats where they do not fit.", group=_DENSITY, low=0.001
    )
    splat_budget: float = setting(
        1.74,
        "Splats to aim for, times the number of training pixels to the power 2/3; 0: as many as --max-splats.",
        group=_DENSITY,
        low=0,
    )
    densify_start: int | None = setting(
        None, "Step after which splats may be added; by default a 60th of the run.", group=_DENSITY, low=0
    )
    densify_stop: int | None = setting(
        None, "Step from which none are added any more; by default two thirds of the run.", group=_DENSITY, low=0
    )
    densify_interval: int = setting(100, "Steps between two rounds of adding and removing.", group=_DENSITY, low=1)
    grad_threshold: float = setting(
        2e-4, "Mean screen-space gradient from which a splat is cloned or split.", group=_DENSITY, low=0
    )
    absgrad: bool = setting(
        False, "Sum absolute gradients for that (AbsGS); wants a threshold about four times as high.", group=_DENSITY
    )
    prune_opacity: float = setting(0.005, "Splats under this opacity are removed.", group=_DENSITY, low=0, high=1)
    opacity_reset_interval: int = setting(
        3000, "Steps between two resets of all opacities to nearly nothing.", group=_DENSITY, low=1
    )

    score_views: int = setting(
        10, "Training views that error-guided strategies look at before each round.", group=_DENSITY, low=1
    )
    growth_rate: float = setting(
        0.05,
        "Share of all splats that may be added in a round of a run of 30,000 steps; shorter runs grow faster.",
        group=_DENSITY,
        low=0,
        high=1,
    )

    def __post_init__(self) -> None:
        for name, declared in SETTINGS.items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))

    @property
    def num_steps(self) -> int:
        """`steps` of a run, which are resolved before anything is saved."""
        assert self.steps is not None, "the steps of a plan are asked for before it is resolved"
        return self.steps

    @property
    def trained_sh_degree(self) -> int:
        """Degree of the colours that splats have of their own: with a field only the constant one."""
        return 0 if self.color == "field" else self.sh_degree


@dataclass(frozen=True)
class ResolvedConfig(TrainConfig):
    """The settings that a run trains with: defaults that depend on the scene or on --steps are filled in.

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
"""Former names of settings, which TOML files and the config.toml of earlier runs may still have."""

FLAGS: dict[str, tuple[str, dict[bool, str]]] = {"exposure": ("appearance", {False: "none", True: "exposure"})}
"""Former settings that were on or off -> the setting that took them over, and its values for off and on."""

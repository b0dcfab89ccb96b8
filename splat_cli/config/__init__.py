"""Settings of a training run: the single declaration of command-line options, presets, config.toml and docs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from splat_cli.config.cameras import CameraSettings
from splat_cli.config.dataset import DatasetSettings
from splat_cli.config.density import DensitySettings
from splat_cli.config.optimizer import OptimizerSettings
from splat_cli.config.run import RunSettings
from splat_cli.config.setting import Setting, settings_of
from splat_cli.config.splats import SplatSettings

_SAVE_AT = (7000,)


@dataclass(frozen=True)
class TrainConfig(
    # in reverse: a dataclass takes the fields of its last base first
    DensitySettings,
    CameraSettings,
    OptimizerSettings,
    SplatSettings,
    DatasetSettings,
    RunSettings,
):
    """Settings of one run, checked on construction: UsageError names the setting, its value and the valid values."""

    def __post_init__(self) -> None:
        for name, declared in SETTINGS.items():
            object.__setattr__(self, name, declared.check(getattr(self, name)))

    @property
    def num_steps(self) -> int:
        """Number of training steps of a resolved configuration."""
        assert self.steps is not None, "num_steps is read before the plan is resolved"
        return self.steps

    @property
    def batch_size(self) -> int:
        """Number of steps per update."""
        return self.gpus if self.batch is None else self.batch

    @property
    def save_steps(self) -> list[int]:
        """Steps of `save_at`, ascending, each the last of a batch; some may be after the end of the run."""
        steps = _SAVE_AT if self.save_at is None else self.save_at
        return sorted({step + -step % self.batch_size for step in steps})

    @property
    def decided(self) -> dict[str, Any]:
        """Settings that plan or trials choose if not given; without a choice, one view per GPU and no appearance."""
        return {"batch": self.batch_size, "appearance": self.appearance or "none"}

    @property
    def has_appearance(self) -> bool:
        """Whether colours of photographs are corrected."""
        return self.decided["appearance"] != "none"

    @property
    def trained_sh_degree(self) -> int:
        """SH degree of the splats' own colours while they are trained."""
        return self.field_sh_degree if self.color == "field" else self.sh_degree

    @property
    def num_features(self) -> int:
        """Size of the splats' feature vectors: inputs of a colour field."""
        return self.field_features if self.color == "field" else 0


@dataclass(frozen=True)
class ResolvedConfig(TrainConfig):
    """Settings of a run after resolving defaults that depend on the scene or on --steps.

    Made once, by `run.plan.resolve_plan`. Learning rates include the factors for short runs and for the number of
    photographs; `growth_rate` and `noise_scale` include the factors for short runs. `strategy` is never "default" and
    `background` never "auto"; `max_splats` respects the splat budget and the memory.
    """

    if TYPE_CHECKING:  # no longer optional
        steps: int = 0
        sh_degree_interval: int = 0
        init_opacity: float = 0.0
        init_scale: float = 0.0
        densify_start: int = 0
        densify_stop: int = 0
        lr_decay_start: int = 0
        depth_weight: float = 0.0
        free_space: float = 0.0
        coarse_until: float = 0.0
        coarse_levels: int = 1
        dropout: float = 0.0
        noise_scale: float = 0.0


SETTINGS: dict[str, Setting] = settings_of(TrainConfig)

ALIASES = {"own_axes": "local_frame_adam", "probe_views": "score_views"}
"""Former names of settings, still accepted in TOML files and in the config.toml of earlier runs."""

REPLACED: dict[str, tuple[str, dict[bool | str, bool | str]]] = {
    "exposure": ("appearance", {False: "none", True: "exposure"}),
    "optimizer": ("visible_adam", {"dense": False, "visible": True}),
}
"""Former setting -> the setting that replaces it, and {former value: current value}."""

REMOVED = {
    "moments": "they always take half the memory now, which cost 0.05 dB (standard error 0.03) in 44 pairs of runs",
    "field_moves": "gradients of the field's colours that move splats gained nothing",
}
"""Former setting -> why it is not needed. Ignored in TOML files and in the config.toml of earlier runs."""

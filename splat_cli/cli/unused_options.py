"""Warnings for options without effect, because the option that enables them is off."""

from collections.abc import Callable, Iterable

from splat_cli.config import SETTINGS, TrainConfig

BELONGING: dict[str, tuple[Callable[[TrainConfig], bool], tuple[str, ...]]] = {
    "--eval": (lambda config: config.eval, ("test_every", "split_by", "split")),
    "--init-from or --frozen": (lambda config: bool(config.init_from or config.frozen), ("spz_axes",)),
    "--crop": (lambda config: config.crop is not None, ("crop_start",)),
    "--color field": (
        lambda config: config.color == "field",
        (
            "field_table_size", "field_direction_degree", "field_appearance", "field_moves", "field_sh_degree",
            "field_features", "lr_field",
        ),
    ),
    "--field-features": (lambda config: config.num_features > 0, ("lr_field_features",)),
    "--pose-opt": (lambda config: config.pose_opt, ("pose_travel", "refine_intrinsics")),
    "--refine-intrinsics": (lambda config: config.refine_intrinsics, ("intrinsics_reg", "refine_distortion")),
    "--robust": (lambda config: config.robust, ("robust_threshold",)),
    "--appearance": (
        lambda config: config.appearance != "none", ("lr_exposure", "lr_exposure_final", "exposure_reg"),
    ),
    "--appearance grid": (lambda config: config.appearance == "grid", ("lr_grid", "grid_smoothness")),
    "--appearance camera": (lambda config: config.appearance == "camera", ("lr_camera", "camera_reg")),
    "--background learned": (lambda config: config.background == "learned", ("lr_background",)),
    "--strategy adc": (
        lambda config: config.strategy == "adc", ("grad_threshold", "absgrad", "opacity_reset_interval"),
    ),
}  # fmt: skip
"""Option -> (predicate: is it on?, settings that are only read if it is)."""


def unused_options(config: TrainConfig, given: Iterable[str]) -> list[str]:
    """One line for each setting in `given` that has no effect with `config`."""
    names = set(given)
    return [
        f"{SETTINGS[name].option} does nothing without {option}"
        for option, (is_on, settings) in BELONGING.items()
        if not is_on(config)
        for name in settings
        if name in names
    ]

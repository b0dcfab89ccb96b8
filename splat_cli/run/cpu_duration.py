"""Estimate of the training time on a CPU; advice on settings if it would take hours."""

from collections.abc import Sequence

from splat_cli.config import ResolvedConfig
from splat_cli.device import num_cores
from splat_cli.run.plan import MIN_BUDGET, unit_of_budget
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display

SECONDS_PER_PIXEL, SECONDS_PER_SPLAT = 4e-7, 1.7e-6
"""Seconds of one step on one core with AVX-512, measured on the sample scene (up to 100,000 splats, 172,800 pixels)."""
_LONG = 3600.0  # seconds, threshold of the warning
_SHORT = 600.0  # seconds, target of the advice
_ADVISED_STEPS = (3000, 7000)
_DOWNSCALES = (1, 2, 4, 8)


def warn_of_duration(config: ResolvedConfig, views: Sequence[View], done: int, display: Display) -> None:
    """Warn if the steps after the first `done` would take hours on the CPU of this computer."""
    warning = duration_warning(config, views, config.steps - done, 1 if config.deterministic else num_cores())
    if warning is not None:
        display.warn(warning)


def duration_warning(config: ResolvedConfig, views: Sequence[View], steps: int, num_cores: int) -> str | None:
    """A warning with advice if `steps` steps would take hours on `num_cores` cores; otherwise None."""
    pixels = sum(view.width * view.height for view in views) / len(views)
    seconds = steps * step_seconds(pixels, config.max_splats, num_cores)
    if seconds < _LONG:
        return None
    cores = f"{num_cores} core{'s' * (num_cores > 1)}"
    advice = _advice(config, pixels, len(views), num_cores)
    return f"training on the CPU ({cores}) will take about {in_words(seconds)}; {advice}"


def _advice(config: ResolvedConfig, pixels: float, num_views: int, num_cores: int) -> str:
    """Options to train in about _SHORT seconds: the smallest sufficient downscaling, and the number of steps."""
    (low, high), total = _ADVISED_STEPS, num_views * pixels
    for downscale in _DOWNSCALES:
        fewer = unit_of_budget(num_views, total / downscale**2) / unit_of_budget(num_views, total)
        splats = max(int(config.max_splats * fewer), min(config.max_splats, MIN_BUDGET))
        step = step_seconds(pixels / downscale**2, splats, num_cores)
        steps = min(int(_SHORT / step) // 500 * 500, high)
        if steps >= low:
            break
    steps = max(steps, low)
    smaller = f"--downscale {config.downscale * downscale} " if downscale > 1 else ""
    return f"{smaller}--steps {steps} would take about {in_words(steps * step)}; a GPU is faster"


def step_seconds(pixels: float, num_splats: int, num_cores: int) -> float:
    return (SECONDS_PER_PIXEL * pixels + SECONDS_PER_SPLAT * num_splats) / num_cores


def in_words(seconds: float) -> str:
    """A duration, rounded: "12 minutes", "3 hours"."""
    number, unit = (seconds / 3600, "hour") if seconds >= _LONG else (seconds / 60, "minute")
    whole = max(round(number), 1)
    return f"{whole} {unit}{'s' * (whole > 1)}"

"""Estimated duration of training on a CPU, with settings that end in minutes where it would take hours."""

from collections.abc import Sequence

from splat_cli.config import ResolvedConfig
from splat_cli.console import Display
from splat_cli.device import num_cores
from splat_cli.run.plan import MIN_BUDGET
from splat_cli.scene.view import View

SECONDS_PER_PIXEL, SECONDS_PER_SPLAT = 4e-7, 1.7e-6
"""Of one core and one step, with AVX-512; measured on the sample scene with up to 100,000 splats and 172,800 pixels."""
_LONG = 3600.0  # seconds, from which on it is worth a warning
_SHORT = 600.0  # seconds that the advice aims at
_ADVISED_STEPS = (3000, 7000)
_DOWNSCALES = (1, 2, 4, 8)


def warn_of_duration(config: ResolvedConfig, views: Sequence[View], done: int, display: Display) -> None:
    """Says before the steps after `done` are trained on this computer's CPU that they would take hours."""
    warning = duration_warning(config, views, config.steps - done, 1 if config.deterministic else num_cores())
    if warning is not None:
        display.warn(warning)


def duration_warning(config: ResolvedConfig, views: Sequence[View], steps: int, num_cores: int) -> str | None:
    """What to say before `steps` steps of training on the CPU that would take hours; None where they take less."""
    pixels = sum(view.width * view.height for view in views) / len(views)
    seconds = steps * _step_seconds(pixels, config.max_splats, num_cores)
    if seconds < _LONG:
        return None
    cores = f"{num_cores} core{'s' * (num_cores > 1)}"
    return f"training on the CPU ({cores}) will take about {_in_words(seconds)}; {_advice(config, pixels, num_cores)}"


def _advice(config: ResolvedConfig, pixels: float, num_cores: int) -> str:
    """The least downscaling with which enough steps end in time, and how many do."""
    low, high = _ADVISED_STEPS
    for downscale in _DOWNSCALES:
        splats = max(int(config.max_splats * downscale ** (-4 / 3)), min(config.max_splats, MIN_BUDGET))
        step = _step_seconds(pixels / downscale**2, splats, num_cores)
        steps = min(int(_SHORT / step) // 500 * 500, high)
        if steps >= low:
            break
    steps = max(steps, low)
    smaller = f"--downscale {config.downscale * downscale} " if downscale > 1 else ""
    return f"{smaller}--steps {steps} would take about {_in_words(steps * step)}, a GPU less"


def _step_seconds(pixels: float, num_splats: int, num_cores: int) -> float:
    return (SECONDS_PER_PIXEL * pixels + SECONDS_PER_SPLAT * num_splats) / num_cores


def _in_words(seconds: float) -> str:
    """Rounded: "12 minutes", "3 hours"."""
    number, unit = (seconds / 3600, "hour") if seconds >= _LONG else (seconds / 60, "minute")
    whole = max(round(number), 1)
    return f"{whole} {unit}{'s' * (whole > 1)}"

"""The device of a run: its backend, the kernels that are compiled while photographs are read, the time on a CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.config.combinations import uses_free_space
from splat_cli.device import Backend, Unit, num_cores, open_backend
from splat_cli.device.cuda import why_no_cuda
from splat_cli.eval.metrics import SCORE_KERNELS
from splat_cli.joint.depth.free_space import FREE_SPACE_KERNELS
from splat_cli.render.project import batch_size_defines
from splat_cli.render.tiles import SORT_DEFINES
from splat_cli.run.plan import (
    BATCH_MIN_VIEWS,
    BUDGET_MIN_SPLATS,
    STEPS_RANGE,
    default_batch,
    resolve_schedule,
    unit_of_budget,
)
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display
from splat_cli.train.joint_models import joint_kernels
from splat_cli.train.view_scores import has_fixed_scores

_NVIDIA_DRIVER = Path("/dev/nvidiactl")


def open_device(name: str, config: TrainConfig, display: Display) -> Backend:
    """The backend `name` ("auto", "cuda" or "cpu"); with --deterministic on the CPU, a single thread.

    Warns if "auto" falls back to the CPU on a machine with an NVIDIA GPU.
    """
    backend = open_backend(name, threads=1 if config.deterministic else None)
    if name == "auto" and backend.name == "cpu" and _NVIDIA_DRIVER.exists():
        display.warn(f"there is an NVIDIA GPU, but {why_no_cuda()}; training on the CPU is much slower")
    return backend


def prepare_kernels(backend: Backend, config: TrainConfig) -> Callable[[], None]:
    """Start to compile the kernels of a run with these settings, in threads; errors are ignored.

    Returns a function that waits for them.
    """
    return backend.prepare(kernels_of_run(config, backend.name))


def kernels_of_run(config: TrainConfig, device: str) -> list[Unit]:
    """Kernel files and defines that do not depend on the photographs, the slowest to compile first.

    config: settings as requested. device: "cuda" or "cpu".
    """
    config = dataclasses.replace(config, batch=_batch_size(config))
    units = _step_kernels(config, device)
    if config.smooth_3d > 0:
        units.append(("optim/smooth_3d", {"LENS": 1} if config.lens == "keep" else {}))
    units += _initialization_kernels(config) + _density_kernels(config, device) + joint_kernels(config)
    return units + [*SCORE_KERNELS, *FREE_SPACE_KERNELS] if config.eval else units


def _batch_size(config: TrainConfig) -> int:
    """Number of views per batch; before the plan of a run sets it, that of most scenes."""
    return config.batch or default_batch(config, config.steps or STEPS_RANGE[0], BATCH_MIN_VIEWS)


def _step_kernels(config: TrainConfig, device: str) -> list[Unit]:
    """Kernels of a training step, except those of joint models."""
    fixed = {"FIXED_SUMS": 1} if config.deterministic and device == "cuda" else {}
    absgrad = {"ABSGRAD": 1} if config.absgrad and config.strategy == "adc" else {}
    update = {"FUSED_ADAM": 1} | ({} if config.frozen is None else {"FROZEN": 1})
    update |= batch_size_defines(config.batch_size) | ({"SENT": 1} if config.gpus > 1 else {})
    has_distortion = config.pose_opt and config.refine_intrinsics and config.refine_distortion
    projection = {"LENS": 1} if config.lens == "keep" else {"RADIAL_DISTORTION": 1} if has_distortion else {}
    units: list[Unit] = [
        ("raster/blend_backward", absgrad | fixed or ({"MATRIX_SUMS": 1} if device == "cuda" else {})),
        ("raster/blend", {}),
        *([("raster/blend", {"FEW_TILES": 1})] if device == "cuda" else []),  # for small photographs
        ("raster/project_backward", update | projection),
        ("raster/color_backward", update),
        ("optim/l1_ssim", {}),
        ("raster/tiles", {}),
        ("raster/project", projection),
        ("raster/sort_tiles", SORT_DEFINES[device]),
        ("optim/begin_step", {}),
    ]
    if config.gpus > 1:
        units += [
            ("raster/project_share", {}),
            ("raster/receive_splats", {}),
            ("raster/exchange", {}),
            ("density/shares", {}),
        ]
    if config.dropout != 0:
        project = "raster/project_share" if config.gpus > 1 else "raster/project"
        units.append((project, projection | {"DROPOUT": 1}))
    if fixed:
        units.append(("raster/fixed_to_float", {}))
        units += [("optim/free_space", fixed)] if uses_free_space(config) else []
    return units


def _initialization_kernels(config: TrainConfig) -> list[Unit]:
    if config.init_from is not None:
        return []
    sweep: list[Unit] = [("image/plane_sweep", {})] if config.init in ("auto", "sweep") else []
    return [*sweep, ("knn", {})]


def _density_kernels(config: TrainConfig, device: str) -> list[Unit]:
    fixed = {"FIXED_SUMS": 1} if has_fixed_scores(config, device == "cuda") else {}
    schedule = resolve_schedule(config, config.steps or STEPS_RANGE[0])
    units: list[Unit] = [("density/columns", {}), ("density/ratings", {}), ("density/refine", {}), ("morton", {})]
    if schedule["strategy"] in ("copies", "splits"):
        units.append(("raster/blend_scores", fixed))
        units += [("density/ratings", fixed)] if fixed else []
    if schedule["strategy"] != "adc":
        units.append(("density/sampling", {}))
        units += [("density/unseen", {})] if config.relocate_unseen else []
    return units


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
        splats = max(int(config.max_splats * fewer), min(config.max_splats, BUDGET_MIN_SPLATS))
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

"""The device of a run: its backend, and the kernels that are compiled while photographs are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.config.combinations import uses_free_space
from splat_cli.device import Backend, Unit, open_backend
from splat_cli.device.cuda import why_no_cuda
from splat_cli.eval.metrics import SCORE_KERNELS
from splat_cli.joint.depth.free_space import FREE_SPACE_KERNELS
from splat_cli.render.project import batch_size_defines
from splat_cli.render.tiles import SORT_DEFINES
from splat_cli.run.plan import MIN_VIEWS_OF_BATCH, STEPS_RANGE, default_batch, resolve_schedule
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
    return config.batch or default_batch(config, config.steps or STEPS_RANGE[0], MIN_VIEWS_OF_BATCH)


def _step_kernels(config: TrainConfig, device: str) -> list[Unit]:
    """Kernels of a training step, except those of joint models."""
    fixed = {"FIXED_SUMS": 1} if config.deterministic and device == "cuda" else {}
    absgrad = {"ABSGRAD": 1} if config.absgrad and config.strategy == "adc" else {}
    update = {"FUSED_ADAM": 1} | ({} if config.frozen is None else {"FROZEN": 1})
    update |= batch_size_defines(config.batch_size)
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

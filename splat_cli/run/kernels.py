"""Kernels of a run, compiled in the background while photographs are read."""

from __future__ import annotations

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.device.compiled_units import Unit
from splat_cli.run.plan import STEPS_RANGE, resolve_schedule
from splat_cli.train.auxiliary import auxiliary_kernels


def prepare_kernels(backend: Backend, config: TrainConfig) -> None:
    """Begin to compile all that a run with these settings will launch, in threads. Does not wait, never fails."""
    backend.prepare(kernels_of_run(config, backend.name))


def kernels_of_run(config: TrainConfig, device: str) -> list[Unit]:
    """Kernel files and defines, those that take longest to compile first; without what depends on the photographs.

    config: as requested. device: "cuda" or "cpu".
    """
    fixed = {"FIXED_SUMS": 1} if config.deterministic and device == "cuda" else {}
    absgrad = {"ABSGRAD": 1} if config.absgrad and config.strategy == "adc" else {}
    units: list[Unit] = [
        ("raster/blend_backward", absgrad | fixed),
        ("raster/blend", {}),
        ("raster/project_backward", {"FUSED_ADAM": 1}),
        ("optim/l1_ssim", {}),
        ("raster/tiles", {}),
        ("raster/project", {}),
        ("raster/sort_tiles", {}),
        ("optim/begin_step", {}),
    ]
    if config.dropout != 0:
        units.append(("raster/project", {"DROPOUT": 1}))
    if fixed:
        units.append(("raster/fixed_to_float", {}))
    if config.smooth_3d > 0:
        units.append(("optim/filter_3d", {}))
    return units + _of_initialization(config) + _of_density(config, fixed) + auxiliary_kernels(config)


def _of_initialization(config: TrainConfig) -> list[Unit]:
    if config.init_from is not None:
        return []
    sweep: list[Unit] = [("image/plane_sweep", {})] if config.init in ("auto", "sweep") else []
    return [*sweep, ("knn", {})]


def _of_density(config: TrainConfig, fixed: dict[str, int]) -> list[Unit]:
    schedule = resolve_schedule(config, config.steps or STEPS_RANGE[0])
    units: list[Unit] = [("density/columns", {}), ("density/ratings", {}), ("density/refine", {}), ("morton", {})]
    if schedule["strategy"] in ("copies", "splits"):
        units.append(("raster/blend_scores", fixed))
        units += [("density/ratings", fixed)] if fixed else []
    if schedule["strategy"] != "adc":
        units.append(("density/sampling", {}))
        units += [("optim/langevin_noise", {})] if schedule["noise_scale"] > 0 else []
    return units

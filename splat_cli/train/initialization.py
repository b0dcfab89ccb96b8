"""The splats that a run starts from: the scene's points, or a file."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.edit import limit_sh_degree
from splat_cli.gaussians.formats import format_for, read_splats
from splat_cli.gaussians.init import splats_from_points
from splat_cli.milestones import milestones
from splat_cli.scene.view import View

MIN_BUDGET = 20_000  # splats, however few the pixels


def with_budget(config: TrainConfig, views: Sequence[View]) -> TrainConfig:
    """The settings with max_splats lowered to what the number of training pixels justifies (see splat_budget)."""
    if config.splat_budget == 0:
        return config
    num_pixels = sum(view.width * view.height for view in views)
    budget = max(int(config.splat_budget * num_pixels ** (2 / 3)), MIN_BUDGET)
    return dataclasses.replace(config, max_splats=min(config.max_splats, budget))


def check_source(config: TrainConfig) -> None:
    """UsageError where --init-from names no file of splats: before photographs are read, which takes time."""
    if config.init_from is None:
        return
    path = Path(config.init_from)
    format_for(path)
    if not path.is_file():
        raise UsageError(f"there is no file {path} to start from: correct --init-from")


def starting_splats(
    backend: Backend, points: np.ndarray, colors: np.ndarray, config: TrainConfig, random: np.random.Generator
) -> tuple[SplatArrays, list[str]]:
    """At most config.max_splats splats of the degree that is trained, from points float32 [P, 3]; and notices.

    Where there are no points, from the file config.init_from. SceneError, FormatError where there is nothing. Notices
    are what the user should hear about the splats.
    """
    if config.init_from is not None and len(points) == 0:
        return _from_ply(Path(config.init_from), config, random)
    arrays = splats_from_points(
        backend,
        points,
        colors,
        config.trained_sh_degree,
        opacity=milestones(config).init_opacity,
        max_splats=config.max_splats,
        random=random,
    )
    arrays.log_scales += np.float32(np.log(milestones(config).init_scale))
    return arrays, []


def _from_ply(path: Path, config: TrainConfig, random: np.random.Generator) -> tuple[SplatArrays, list[str]]:
    splats, notices = read_splats(path), []
    if len(splats) == 0:
        raise FormatError(f"{path} holds no splats to start from; name another file")
    if splats.num_dropped:
        notices.append(f"left out {splats.num_dropped:,} splats of {path} that are not finite")
    if len(splats) > config.max_splats:
        notices.append(
            f"starting from {config.max_splats:,} of the {len(splats):,} splats of {path}, drawn at random: "
            "for more, give --max-splats and --splat-budget 0"
        )
        splats = splats.select(np.sort(random.choice(len(splats), config.max_splats, replace=False)))
    splats = limit_sh_degree(splats, config.trained_sh_degree)
    missing = (config.trained_sh_degree + 1) ** 2 - 1 - splats.shN.shape[1]
    splats.shN = np.pad(splats.shN, ((0, 0), (0, missing), (0, 0)))
    return splats, notices

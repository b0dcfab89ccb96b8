"""Initial splats from points or from a file."""

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import FormatError, SceneError, UsageError
from splat_cli.gaussians.arrays import SplatArrays, limit_sh_degree
from splat_cli.gaussians.editing.move import with_origin
from splat_cli.gaussians.formats import format_for, read_splats
from splat_cli.gaussians.formats.quantize import unit_quats
from splat_cli.gaussians.from_points import splats_from_points
from splat_cli.scene.crop import parse_crop
from splat_cli.scene.georeferenced import relative_crop


def check_source(config: TrainConfig) -> None:
    """UsageError if --init-from or --frozen is not a file of splats, or conflicts with other settings.

    Called before photographs are read, which takes time.
    """
    for option, name in (("--init-from", config.init_from), ("--frozen", config.frozen)):
        if name is None:
            continue
        path = Path(name)
        format_for(path)
        if not path.is_file():
            raise UsageError(f"there is no file {path} to start from: correct {option}")
    refused = {"--color field": config.color == "field", "--smooth-3d": config.smooth_3d > 0}
    for option, is_wanted in refused.items():
        if config.frozen is not None and is_wanted:
            raise UsageError(f"--frozen does not work with {option}, which changes all splats: leave out one of them")


def initial_splats(
    backend: Backend,
    config: ResolvedConfig,
    points: np.ndarray,
    colors: np.ndarray,
    rng: np.random.Generator,
    origin: Iterable[float] = (0.0, 0.0, 0.0),
) -> tuple[SplatArrays, list[str]]:
    """At most config.max_splats splats of SH degree config.trained_sh_degree or less, from points float32 [P, 3].

    colors: colours of the points, uint8 [P, 3]. Without points, from the file config.init_from, moved to the scene's
    `origin` (see with_origin). Also returns notices for the user. SceneError or FormatError if there is nothing to
    start from.
    """
    if config.init_from is not None and len(points) == 0:
        return _from_file(Path(config.init_from), config, rng, origin)
    arrays = splats_from_points(
        backend,
        points,
        colors,
        config.trained_sh_degree,
        opacity=config.init_opacity,
        max_splats=config.max_splats,
        rng=rng,
    )
    arrays.log_scales += np.float32(np.log(config.init_scale))
    return arrays, []


def frozen_splats(config: TrainConfig, origin: Iterable[float], warn: Callable[[str], object]) -> SplatArrays | None:
    """The splats of --frozen, with at most the SH degree of training, or None. Raises FormatError.

    origin: the scene's origin, see with_origin.
    """
    if config.frozen is None:
        return None
    splats = with_origin(read_splats(Path(config.frozen), config.spz_axes.upper()), origin)
    for note in splats.reading_notes(config.frozen):
        warn(note)
    if splats.antialiased != config.antialias:
        other = "--no-antialias" if config.antialias else "--antialias"
        warn(f"the splats of {config.frozen} were trained with {other}: they look different in this run")
    return limit_sh_degree(splats, config.trained_sh_degree)


def _from_file(
    path: Path, config: ResolvedConfig, rng: np.random.Generator, origin: Iterable[float]
) -> tuple[SplatArrays, list[str]]:
    splats = with_origin(read_splats(path, config.spz_axes.upper()), origin)
    if len(splats) == 0:
        raise FormatError(f"{path} has no splats to start from; name another file")
    if config.crop is not None and config.crop_start:
        inside = relative_crop(parse_crop(config.crop), np.array(splats.origin)).contains(splats.means)
        if not inside.any():
            raise SceneError(f"none of the {len(splats):,} splats of {path} is inside of --crop: choose a larger one")
        splats = splats.select(inside)
    notices = splats.reading_notes(path)
    if len(splats) > config.max_splats:
        notices.append(
            f"starting from {config.max_splats:,} of the {len(splats):,} splats of {path}, drawn at random: "
            "for more, give --max-splats and --splat-budget 0"
        )
        splats = splats.select(np.sort(rng.choice(len(splats), config.max_splats, replace=False)))
    # an Adam step turns a long quaternion less than a short one
    splats = dataclasses.replace(splats, quats=unit_quats(splats.quats).astype(np.float32))
    return limit_sh_degree(splats, config.trained_sh_degree), notices

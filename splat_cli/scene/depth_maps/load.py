"""Depth maps of views: reading, decision about their units, memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.console import left_out
from splat_cli.scene.depth_maps.align import aligned, resized
from splat_cli.scene.depth_maps.depth_map import DepthMaps
from splat_cli.scene.depth_maps.files import read_confidence, read_depths
from splat_cli.scene.depth_maps.fit import Sampled, fit_errors
from splat_cli.scene.depth_maps.units import depth_map_in, error_of, units_of
from splat_cli.scene.points.observations import observe
from splat_cli.scene.view import DepthFile, View

_MAX_SHARE = 4  # of a map's pixels relative to the photograph's
_BYTES = 3  # a pixel, with confidence
_LEVELS = 65536  # of integers in inverse depths with the scales of depth_params.json

Values = tuple[np.ndarray, np.ndarray | None]  # float32 [h, w], NaN where unknown; confidences float32 [h, w] or None


def load_depth_maps(
    views: Sequence[View],
    points: np.ndarray,
    config: TrainConfig,
    max_bytes: int,
    say: Callable[[str], object],
    warn: Callable[[str], object],
) -> DepthMaps | None:
    """Depth maps of the views that name one, shrunk to at most `max_bytes`; None if none can be used.

    points: float32 [P, 3], to determine the units. say, warn: called with the units, and with the maps that are left
    out.
    """
    shrink = shrink_factor(views, max_bytes)
    read = _read_all(views, config, shrink, warn)
    files = [view.depth for view, values in zip(views, read, strict=True) if view.depth is not None and values]
    if not files:
        return None
    seen = [_sampled(view, values, points) for view, values in zip(views, read, strict=True)]
    found = fit_errors(seen)
    units = units_of(files, found, config.depth_maps)
    error = error_of(units, found)
    if found and error is not None and found.rejects(error) and config.depth_maps == "auto":
        warn(
            f"depth maps are left out: as {units.value} they differ from the scene's points by {error:.0%} in the "
            f"median, a constant depth by {found.constant:.0%}; --depth-maps metric or relative uses them"
        )
        return None
    maps = [
        None if values is None else depth_map_in(units, *values, points_of_view)
        for values, points_of_view in zip(read, seen, strict=True)
    ]
    unknown = sum(depth_map is not None and depth_map.relative for depth_map in maps)
    fitted = f", {unknown:,} of them fitted to the splats in training" if unknown else ""
    off = "" if error is None else f", {error:.1%} from the scene's points in the median"
    small = f", 1/{shrink} of the photographs' size to fit into --image-memory" if shrink > 1 else ""
    say(f"Depth maps: {len(files):,}, {units.value}{fitted}{off}{small}")
    return DepthMaps(maps)


def shrink_factor(views: Sequence[View], max_bytes: int) -> int:
    """The least factor by which maps are smaller than their views so that all take at most `max_bytes`."""
    pixels = sum(view.width * view.height for view in views if view.depth is not None)
    return max(1, int(np.ceil((_BYTES * pixels / max(max_bytes, 1)) ** 0.5)))


def _read_all(
    views: Sequence[View], config: TrainConfig, shrink: int, warn: Callable[[str], object]
) -> list[Values | None]:
    """Values of the views' maps, None where there is none; warns of unusable ones."""

    def read(view: View) -> Values | str | None:
        try:
            return None if view.depth is None else _read(view, view.depth, config, shrink)
        except ValueError as error:
            return f"{view.name}: {error}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(read, views))
    broken = [reason for reason in found if isinstance(reason, str)]
    if broken:
        warn(left_out(broken, "depth map"))
    return [None if isinstance(values, str) else values for values in found]


def _read(view: View, file: DepthFile, config: TrainConfig, shrink: int) -> Values:
    """World units, if the file has a unit, in the view's pixels. ValueError with the defect of the file."""
    whole = view.lens or view
    max_pixels = _MAX_SHARE * whole.width * whole.height
    levels = read_depths(file.path, max_pixels)
    unit = 1.0
    if levels.dtype.kind in "iu":
        unit = config.depth_unit if file.unit is None else file.unit
    with np.errstate(all="ignore"):  # values out of the range of float32 are left out
        values = levels.astype(np.float32)
        values[~(np.isfinite(values) & (values > 0))] = np.nan
        if file.inverse is None:
            values *= np.float32(unit)
        else:
            scale, offset = file.inverse
            values = np.float32(scale / _LEVELS) * values + np.float32(offset)
    confidence = None
    if file.confidence is not None:
        found = resized(read_confidence(file.confidence, max_pixels), *values.shape)
        confidence = np.nan_to_num(aligned(found, view, shrink))
    return aligned(values, view, shrink), confidence


def _sampled(view: View, values: Values | None, points: np.ndarray) -> Sampled:
    """Where the view's map shows points of the scene."""
    if values is None or not len(points):
        return Sampled(np.zeros(0), np.zeros(0))
    seen = observe([view], points)
    row, column = np.divmod(seen.pixels, view.width)
    height, width = values[0].shape
    at = (row * height // view.height, column * width // view.width)
    found = values[0][at].astype(np.float64)
    valid = found > 0  # NaN is not
    if values[1] is not None:
        valid &= values[1][at] > 0.5
    return Sampled(found[valid], 1 / seen.inverse_depths[valid].astype(np.float64))

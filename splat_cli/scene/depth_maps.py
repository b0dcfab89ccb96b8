"""Depth maps of photographs: files (grey images, NumPy arrays, OpenEXR), alignment with the views, units.

Chooses the units in which a set of maps agrees best with the scene's points.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import reason_of
from splat_cli.io.files import regular
from splat_cli.io.image_files import decode
from splat_cli.scene.images.decode import check_pixels, decode_levels
from splat_cli.scene.lens import Lens
from splat_cli.scene.points.observations import observe
from splat_cli.scene.view import DepthFile, View
from splat_cli.terminal.console import left_out

_MOST = 1e30  # inverse depth; kernels compute with 32-bit floats


@dataclass(frozen=True, eq=False)
class DepthMap:
    """Inverse depth of a view: 1/z = scale * values, or if `relative`, up to another scale and a shift.

    values: float16 [h, w], mean 1, 0 where there is no depth; the pinhole view at the map's own resolution. weights:
    uint8 [h, w], 255 for a weight of 1, or None: all are 1.
    """

    values: np.ndarray
    weights: np.ndarray | None
    scale: float
    relative: bool = False

    @classmethod
    def of(
        cls, inverse_depths: np.ndarray, confidence: np.ndarray | None = None, relative: bool = False
    ) -> DepthMap | None:
        """From inverse depths float [h, w], invalid where not positive and finite; None if no pixel is valid.

        confidence: float [h, w], 0 to 1, or None.
        """
        valid = (inverse_depths > 0) & (inverse_depths < _MOST)
        if confidence is not None:
            valid &= confidence > 0
        if not valid.any():
            return None
        mean = float(inverse_depths[valid].mean(dtype=np.float64))
        values = np.minimum(np.where(valid, inverse_depths, 0) / mean, 60_000).astype(np.float16)
        weights = None
        if confidence is not None and (confidence[valid] < 1).any():
            weights = np.rint(255 * confidence).astype(np.uint8)
        return cls(values, weights, mean, relative)

    @property
    def num_bytes(self) -> int:
        """Memory of the map, in bytes."""
        return self.values.nbytes + (0 if self.weights is None else self.weights.nbytes)


@dataclass(frozen=True, eq=False)
class DepthMaps:
    """Depth maps of views, None where a view has none."""

    maps: Sequence[DepthMap | None]

    @property
    def num_bytes(self) -> int:
        """Memory on the device, in bytes."""
        return sum(depth_map.num_bytes for depth_map in self.maps if depth_map is not None)


MIN_POINTS = 20  # per view
_ROUNDS = 20  # rounds of reweighted least squares
_SLACK = 1.5, 0.01  # factor and difference by which the error of metric depths may exceed that of fitted depths
_MAX_ERROR = 0.25  # with a larger error, maps do not belong to this scene
_FINE_ERROR, _MAX_ERROR_SHARE = 0.02, 0.7  # maximum error relative to that of a constant depth
_RATIO_TOLERANCE = 0.03
_MAX_SHARE = 4  # maximum pixels of a map, relative to the photograph's
_BYTES = 3  # per pixel, with confidence
_LEVELS = 65536  # integer levels of inverse depths with the scales of depth_params.json
Values = tuple[np.ndarray, np.ndarray | None]  # float32 [h, w], NaN where unknown; confidences float32 [h, w] or None


@dataclass(frozen=True, eq=False)
class Sampled:
    """Depths at the points that a view shows: of its map, float64 [P] > 0 in world units, and of the points."""

    values: np.ndarray
    depths: np.ndarray


@dataclass(frozen=True)
class FitErrors:
    """Median error of inverse depths relative to their median.

    metric: of depths in world units. inverse, depth: with scale and shift of each view fitted, to its values as inverse
    depths or as depths. constant: of the median depth of each view, without a map.
    """

    metric: float
    inverse: float
    depth: float
    constant: float

    @property
    def is_metric(self) -> bool:
        """Whether depths in world units agree nearly as well as fitted ones."""
        factor, difference = _SLACK
        return self.metric <= factor * min(self.inverse, self.depth) + difference

    def rejects(self, error: float) -> bool:
        """Whether maps are of another scene: the error is far too large, or hardly less than that of a constant."""
        return error > _MAX_ERROR or error > max(_FINE_ERROR, _MAX_ERROR_SHARE * self.constant)


def fit_errors(views: list[Sampled]) -> FitErrors | None:
    """Medians over the views with enough points; None without such views."""
    errors = [_errors(view) for view in views if len(view.values) >= MIN_POINTS]
    return FitErrors(*np.median(errors, axis=0).tolist()) if errors else None


def robust_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(scale, shift) of least absolute differences |scale x + shift - y|, by reweighted least squares."""
    weights = np.ones(len(x))
    scale, shift = 0.0, float(np.median(y))
    for _ in range(_ROUNDS):
        mean_x, mean_y = np.average(x, weights=weights), np.average(y, weights=weights)
        variance = np.average((x - mean_x) ** 2, weights=weights)
        if variance <= 1e-12 * mean_x**2:
            return 0.0, float(np.median(y))
        scale = float(np.average((x - mean_x) * (y - mean_y), weights=weights) / variance)
        shift = float(mean_y - scale * mean_x)
        residuals = np.abs(scale * x + shift - y)
        weights = 1 / np.maximum(residuals, max(0.01 * float(np.median(residuals)), 1e-12 * float(np.abs(y).max())))
    return scale, shift


def _errors(view: Sampled) -> tuple[float, float, float, float]:
    values, inverse = view.values, 1 / view.depths

    def error(found: Any) -> float:
        return float(np.median(np.abs(found - inverse)) / np.median(inverse))

    scale, shift = robust_line(values, inverse)
    as_inverse = error(scale * values + shift) if scale > 0 else np.inf
    scale, shift = robust_line(values, view.depths)
    as_depth = error(1 / np.maximum(scale * values + shift, 1e-3 * np.median(view.depths))) if scale > 0 else np.inf
    return error(1 / values), as_inverse, as_depth, error(np.median(inverse))


class Units(Enum):
    """Units of the values of a set of depth maps; values of members are descriptions."""

    METRIC = "depths in world units"
    SCALED = "inverse depths with the scales of depth_params.json"
    RELATIVE = "depths up to scale and shift"
    RELATIVE_INVERSE = "inverse depths up to scale and shift"

    @property
    def is_relative(self) -> bool:
        return self in (Units.RELATIVE, Units.RELATIVE_INVERSE)


def units_of(files: Sequence[DepthFile], found: FitErrors | None, wanted: str) -> Units:
    """Units by --depth-maps (`wanted`) and, with "auto", by the errors at the scene's points; metric without points.

    Relative maps are inverse depths, as monocular networks make them, unless points or the dataset's format say
    otherwise.
    """
    if all(file.inverse is not None for file in files):
        return Units.SCALED
    if wanted == "metric" or (wanted == "auto" and (found is None or found.is_metric)):
        return Units.METRIC
    are_depths = all(file.is_metric for file in files) if found is None else found.depth < found.inverse
    return Units.RELATIVE if are_depths else Units.RELATIVE_INVERSE


def error_of(units: Units, found: FitErrors | None) -> float | None:
    """Median error of inverse depths relative to the points', with these units; None if it is not known."""
    if found is None or units is Units.SCALED:
        return None
    return {Units.METRIC: found.metric, Units.RELATIVE: found.depth, Units.RELATIVE_INVERSE: found.inverse}[units]


def depth_map_in(units: Units, values: np.ndarray, confidence: np.ndarray | None, seen: Sampled) -> DepthMap | None:
    """The map of values float32 [h, w], NaN where unknown.

    Scale and shift of relative maps are fitted to the points where the view shows them, `seen`; without enough of these
    they stay unknown.
    """
    relative = units.is_relative and len(seen.values) < MIN_POINTS
    with np.errstate(all="ignore"):  # infinities and NaN are left out
        if units is Units.METRIC:
            inverse = 1 / values
        elif units is Units.RELATIVE:
            scale, shift = (1.0, 0.0) if relative else robust_line(seen.values, seen.depths)
            inverse = 1 / (scale * values + shift)
        elif units is Units.RELATIVE_INVERSE and not relative:
            scale, shift = robust_line(seen.values, 1 / seen.depths)
            inverse = scale * values + shift
        else:
            inverse = values
    return DepthMap.of(inverse, confidence, relative)


def aligned(values: np.ndarray, view: View, shrink: int = 1) -> np.ndarray:
    """Values float32 [h, w] of a photograph, of any resolution, resampled to its pinhole view; NaN outside.

    At most as large as the view divided by this factor. Nothing is interpolated, because depths jump at edges.
    ValueError for another aspect ratio.
    """
    height, width = values.shape
    whole = view.lens or view
    if abs(width * whole.height / (height * whole.width) - 1) > _RATIO_TOLERANCE:
        raise ValueError(f"is {width}x{height}, the photograph {whole.width}x{whole.height}: another aspect ratio")
    if view.lens is not None:
        values = _undistorted(values, view.lens)
    return reduced(values, max(1, view.height // shrink), max(1, view.width // shrink))


def reduced(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Values [h, w] downscaled to at most [height, width] by nearest-neighbour sampling."""
    for axis, size in enumerate((height, width)):
        have = values.shape[axis]
        if have > size:
            values = values.take(((np.arange(size) + 0.5) * have / size).astype(int), axis)
    return values


def resized(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Values [h, w] resampled to [height, width] by nearest-neighbour sampling."""
    rows = ((np.arange(height) + 0.5) * values.shape[0] / height).astype(int)
    columns = ((np.arange(width) + 0.5) * values.shape[1] / width).astype(int)
    return values[rows[:, None], columns]


def _undistorted(values: np.ndarray, lens: Lens) -> np.ndarray:
    assert lens.distortion is not None
    height, width = values.shape
    small, x, y = lens.resized(width, height), width / lens.width, height / lens.height
    pinhole = lens.pinhole.resized(max(1, round(lens.pinhole.width * x)), max(1, round(lens.pinhole.height * y)))
    rows, columns = np.mgrid[: pinhole.height, : pinhole.width] + 0.5
    rays = np.stack([(columns - pinhole.cx) / pinhole.fx, (rows - pinhole.cy) / pinhole.fy], axis=-1)
    with np.errstate(all="ignore"):
        seen = lens.distortion.distort(rays) * [small.fx, small.fy] + [small.cx, small.cy]
        inside = np.all((seen >= 0) & (seen < [width, height]), axis=-1)
    column, row = np.where(inside[..., None], seen, 0).astype(int).transpose(2, 0, 1)
    return np.where(inside, values[row, column], np.float32(np.nan))


def load_depth_maps(
    views: Sequence[View],
    points: np.ndarray,
    config: TrainConfig,
    max_bytes: int,
    say: Callable[[str], object],
    warn: Callable[[str], object],
) -> DepthMaps | None:
    """Depth maps of the views that name one, shrunk to at most `max_bytes`; None if none can be used.

    points: float32 [P, 3], to determine the units. say: called with the units. warn: called with the maps that are left
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
    """Minimum factor by which maps must be smaller than their views so that all take at most `max_bytes`."""
    pixels = sum(view.width * view.height for view in views if view.depth is not None)
    return max(1, int(np.ceil((_BYTES * pixels / max(max_bytes, 1)) ** 0.5)))


def _read_all(
    views: Sequence[View], config: TrainConfig, shrink: int, warn: Callable[[str], object]
) -> list[Values | None]:
    """Values of the views' maps, None without a map; warns of unusable ones."""

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
    """Values in the view's pixels, in world units if the file has a unit. ValueError with the defect of the file."""
    whole = view.lens or view
    max_pixels = _MAX_SHARE * whole.width * whole.height
    levels = read_depths(file.path, max_pixels)
    unit = 1.0
    if levels.dtype.kind in "iu":
        unit = config.depth_unit if file.unit is None else file.unit
    with np.errstate(all="ignore"):  # values out of the range of float32 are left out
        values = levels.astype(np.float32)
        values[~(np.isfinite(values) & (values > 0)) | _is_saturated(levels)] = np.nan
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


def _is_saturated(levels: np.ndarray) -> np.ndarray:
    """Mask of the largest level of 8 and 16 bits: programs write it for holes and for all depths beyond it."""
    is_small = levels.dtype.kind == "u" and levels.dtype.itemsize <= 2
    return levels == np.iinfo(levels.dtype).max if is_small else np.zeros(levels.shape, bool)


def _sampled(view: View, values: Values | None, points: np.ndarray) -> Sampled:
    """The depths of the view's map at the scene's points in the view."""
    if values is None or not len(points):
        return Sampled(np.zeros(0), np.zeros(0))
    seen = observe([view], points)
    row, column = np.divmod(seen.pixels, view.width)
    height, width = values[0].shape
    at = (row * height // view.height, column * width // view.width)
    found = values[0][at].astype(np.float64)
    valid = found > 0  # false for NaN
    if values[1] is not None:
        valid &= values[1][at] > 0.5
    return Sampled(found[valid], 1 / seen.inverse_depths[valid].astype(np.float64))


DEPTH_SUFFIXES = (".png", ".npy", ".exr", ".tif", ".tiff")


def read_depths(path: Path, max_pixels: int) -> np.ndarray:
    """Values [h, w], integers or floats as in the file; ValueError, before decoding, for more than `max_pixels`."""
    read = {".npy": _read_npy, ".exr": _read_exr}.get(path.suffix.lower(), decode_levels)
    try:
        values = read(path, max_pixels)
    except OSError as error:
        raise ValueError(f"cannot be read ({reason_of(error)})") from error
    if values.dtype.kind not in "iuf" or values.ndim != 2 or not values.size:
        raise ValueError(f"holds {values.dtype} of shape {list(values.shape)}, expected numbers [height, width]")
    return values


def read_confidence(path: Path, max_pixels: int) -> np.ndarray:
    """Confidences float32 [h, w], 0 to 1, of levels 0 to 2 (ARKit's), 255 (Polycam's) or 65535, or floats 0 to 1."""
    levels = read_depths(path, max_pixels)
    largest = np.max(levels, initial=0, where=~np.isnan(levels))
    is_share = levels.dtype.kind == "f" and largest <= 1
    most = 1 if is_share else next((most for most in (2, 255) if largest <= most), 65535)
    return np.clip(levels / np.float32(most), 0, 1).astype(np.float32)


def _read_npy(path: Path, max_pixels: int) -> np.ndarray:
    try:
        values = np.load(regular(path), mmap_mode="r", allow_pickle=False)  # a file that is too short is refused
    except OSError:
        raise
    except Exception as error:  # damaged headers raise many types
        raise ValueError(f"is not a readable array of NumPy ({reason_of(error)})") from error
    if not isinstance(values, np.ndarray):
        raise ValueError("is not a single array of NumPy")
    if values.ndim == 3:
        values = values[0] if values.shape[0] == 1 else values[..., 0] if values.shape[2] == 1 else values
    if values.ndim == 2:
        check_pixels((values.shape[1], values.shape[0]), max_pixels)
    return np.asarray(values)


def _read_exr(path: Path, max_pixels: int) -> np.ndarray:
    """The channel of depths of the first part."""
    if any(importlib.util.find_spec(name) is None for name in ("OpenEXR", "Imath")):
        raise ValueError("OpenEXR files need the extra exr: pip install 'splat-cli[exr]'")
    regular(path).open("rb").close()
    header, _ = _decoded("exr header", path)
    width, height = header["size"]
    if not 0 < width * height <= max(1 << 21, 200 * path.stat().st_size):  # the limit of photographs
        raise ValueError(f"has {width}x{height} pixels in {path.stat().st_size} bytes")
    check_pixels((width, height), max_pixels)
    if header["channel"] is None:
        raise ValueError("has no channels")
    _, content = _decoded("exr", path)
    if len(content) != 4 * width * height:
        raise ValueError(f"has {len(content) // 4:,} values for {width}x{height} pixels")
    return np.frombuffer(content, np.float32).reshape(height, width)


def _decoded(task: str, path: Path) -> tuple[dict[str, Any], bytearray]:
    try:
        return decode(task, path)
    except ValueError as error:
        raise ValueError(f"is not a readable OpenEXR file ({reason_of(error)})") from error

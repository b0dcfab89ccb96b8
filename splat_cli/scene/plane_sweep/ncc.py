"""Similarity of photographs over depths of pixels (cuda_src/image/plane_sweep.cu), and its maxima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend, DeviceArray, ceil_div, check_arrays
from splat_cli.scene.plane_sweep.grayscale import GrayscaleImages, intrinsics
from splat_cli.scene.view import View

RADIUS = 2  # px of a patch, as in cuda_src/image/plane_sweep.cu
_THREADS = 128
_SCORES_AT_ONCE = {"cuda": 1 << 24, "cpu": 1 << 18}  # half a second on one core: signals are handled between launches


@dataclass(frozen=True)
class Surfaces:
    """Pixels int32 [P, 3] (view, column, row) with a depth: inverse depths float64 [P], per world unit."""

    pixels: np.ndarray
    inverse_depths: np.ndarray

    def points(self, views: Sequence[View]) -> np.ndarray:
        """World coordinates, float64 [P, 3]. views: the views of the pixels."""
        outward = np.array([np.linalg.inv(view.w2c)[:3] for view in views])[self.pixels[:, 0]]
        unprojected = np.array([np.linalg.inv(intrinsics(view)) for view in views])[self.pixels[:, 0]]
        corners = np.c_[self.pixels[:, 1:] + 0.5, np.ones(len(self.pixels))]
        rays = (unprojected @ corners[:, :, None]) / self.inverse_depths[:, None, None]
        return (outward[:, :, :3] @ rays)[:, :, 0] + outward[:, :, 3]


def find_surfaces(
    backend: Backend,
    grays: GrayscaleImages,
    neighbors: np.ndarray,
    pixels: np.ndarray,
    inverse_depths: np.ndarray,
    min_score: float,
    margin: float,
    on_pixels: Callable[[int], object] = lambda count: None,
) -> Surfaces:
    """Pixels with a single depth whose score is at least `min_score` and exceeds all others by `margin`.

    neighbors: int32 [V, K], the views to compare each view with. pixels: int32 [P, 3]. inverse_depths: float32 [V, D],
    ascending. on_pixels: called with the number of pixels just searched.
    """
    step = max(1, _SCORES_AT_ONCE[backend.name] // inverse_depths.shape[1])
    chunks = [pixels[start : start + step] for start in range(0, len(pixels), step)]
    parts = [np.zeros(0)]
    for chunk in chunks:
        scores = similarity(backend, grays, neighbors, chunk, inverse_depths)
        parts.append(backend.download(peaks(backend, scores, min_score, margin)))
        on_pixels(len(chunk))
    places = np.concatenate(parts)
    found = np.flatnonzero(places > 0)
    pixels, places = pixels[found], places[found]
    whole = places.astype(np.int64)
    low, high = (inverse_depths[pixels[:, 0], index].astype(np.float64) for index in (whole, whole + 1))
    return Surfaces(pixels, low + (high - low) * (places - whole))


def similarity(
    backend: Backend, grays: GrayscaleImages, neighbors: np.ndarray, pixels: np.ndarray, inverse_depths: np.ndarray
) -> DeviceArray:
    """Scores float32 [P, D], -1 to 1, of pixels at the inverse depths of their views, on the device.

    Arguments as in find_surfaces. ShapeError for other shapes.
    """
    warps = _warps(grays.views, neighbors)
    sizes = check_arrays(
        "sweep",
        neighbors=(neighbors, np.int32, "V K"),
        warps=(warps, np.float32, "V K 12"),
        pixels=(pixels, np.int32, "P 3"),
        inverse_depths=(inverse_depths, np.float32, "V D"),
    )
    num_pixels, num_depths = sizes["P"], sizes["D"]
    scores = backend.xp.empty((num_pixels, num_depths), np.float32)
    backend.kernel("image/plane_sweep", "plane_sweep")(
        (ceil_div(num_pixels * num_depths, _THREADS),),
        (_THREADS,),
        grays.pixels,
        grays.begins,
        grays.sizes,
        backend.upload(neighbors),
        backend.upload(warps),
        sizes["K"],
        backend.upload(pixels),
        num_pixels,
        backend.upload(inverse_depths),
        num_depths,
        scores,
    )
    return scores


def peaks(backend: Backend, scores: DeviceArray, min_score: float, margin: float) -> DeviceArray:
    """Position float64 of the peak in each row of scores [P, D], with a fraction of a depth; 0 without a peak."""
    num_pixels, num_depths = scores.shape
    places = backend.xp.empty(num_pixels, np.float64)
    backend.kernel("image/plane_sweep", "find_peaks")(
        (ceil_div(num_pixels, _THREADS),), (_THREADS,), scores, num_pixels, num_depths, min_score, margin, places
    )
    return places


def _warps(views: Sequence[View], neighbors: np.ndarray) -> np.ndarray:
    """float32 [V, K, 12]: from a view's (x, y, 1, 1 / z) to a neighbour's homogeneous pixels."""
    matrices, w2c = np.array([intrinsics(view) for view in views]), np.array([view.w2c for view in views])
    relative = w2c[neighbors] @ np.linalg.inv(w2c)[:, None]
    turned = matrices[neighbors] @ relative[..., :3, :3] @ np.linalg.inv(matrices)[:, None]
    moved = matrices[neighbors] @ relative[..., :3, 3:]
    return np.concatenate([turned, moved], axis=-1).reshape(*neighbors.shape, 12).astype(np.float32)

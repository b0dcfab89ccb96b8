"""Plane-sweep stereo (Collins 1996): points from photographs and poses, at random pixels.

The first stage searches a few pixels of very small photographs, at all depths compatible with the distances between
cameras; its points give each view's depth range and neighbours. The second uses larger photographs, at even steps of
disparity. A pixel yields a point only if several views agree on a single depth. Stereo compares pinhole cameras;
photographs that keep their lens are first resampled to pinhole pictures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from PIL import Image

from splat_cli.device import Backend, DeviceArray, ceil_div, check_arrays
from splat_cli.scene.images.downscale import nearest_mask, resized_image, shrunk_view, small_copies
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.scene.view import View, evenly_spread
from splat_cli.terminal.console import Counting

MIN_POINTS = 50
"""Minimum number of points; with fewer, the sweep has failed."""
MAX_VIEWS = 400
"""Maximum number of photographs, evenly spread over all."""
_ROUGH_SIDE, _ROUGH_DEPTHS = 160, 160
_ROUGH_PIXELS = (8_000, 32_000)  # the second number where the first one finds too few points
_FARTHEST = 1000.0  # maximum depth over minimum depth, in the first stage
_ROUGH_SCORE, _ROUGH_MARGIN = 0.9, 0.05
SIDE, _SCORE, _MARGIN = 512, 0.75, 0.1
_STEP = 1.5  # px of disparity between consecutive depths
_DEPTHS = (32, 256)  # minimum and maximum number
_PIXELS_PER_TRY = 4  # on average


def sweep_copies(photographs: ImageSet) -> ImageSet:
    """Downscaled copies of some photographs, evenly spread over all, for plane_sweep_points."""
    return small_copies(photographs, evenly_spread(range(len(photographs.views)), MAX_VIEWS), SIDE, nearest_mask)


def plane_sweep_points(
    backend: Backend, small: ImageSet, count: int, rng: np.random.Generator, counting: Counting
) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [P, 3] and colours uint8 [P, 3], from up to `count` random pixels; empty if it fails.

    counting: shows the number of pixels searched.
    """
    rough = _rough_points(backend, small, rng)
    if len(rough) < MIN_POINTS:
        return np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8)
    grays = GrayscaleImages.of(backend, small.views, small.images, SIDE)
    neighbors = neighbors_by_points(grays.views, rough)
    num_depths = int(np.clip(disparity(grays.views, neighbors) / _STEP, *_DEPTHS))
    inverse_depths = (neighbors.nearest[:, None] * np.linspace(0, 1, num_depths)).astype(np.float32)
    pixels = _random_pixels(grays.views, small.masks, count, rng)
    with counting("plane sweep", len(pixels)) as on_pixels:
        found = find_surfaces(backend, grays, neighbors.neighbors, pixels, inverse_depths, _SCORE, _MARGIN, on_pixels)
    return found.points(grays.views).astype(np.float32), _colors(found, grays.views, small.images)


def _rough_points(backend: Backend, photographs: ImageSet, rng: np.random.Generator) -> np.ndarray:
    """Points float64 [P, 3] of the first stage."""
    grays = GrayscaleImages.of(backend, photographs.views, photographs.images, _ROUGH_SIDE)
    neighbors = neighbors_by_position(grays.views)
    if neighbors is None:
        return np.zeros((0, 3))
    spread = np.geomspace(1 / _FARTHEST, 1, _ROUGH_DEPTHS)
    inverse_depths = (neighbors.nearest[:, None] * spread).astype(np.float32)
    for count in _ROUGH_PIXELS:
        pixels = _random_pixels(grays.views, photographs.masks, count, rng)
        found = find_surfaces(backend, grays, neighbors.neighbors, pixels, inverse_depths, _ROUGH_SCORE, _ROUGH_MARGIN)
        if len(points := found.points(grays.views)) >= MIN_POINTS:
            break
    return points


def _random_pixels(
    views: Sequence[View], masks: Sequence[np.ndarray | None], count: int, rng: np.random.Generator
) -> np.ndarray:
    """Up to `count` pixels int32 [P, 3] (view, column, row) with patches inside images and masks."""
    sizes = np.array([(view.width, view.height) for view in views])
    count = min(count, int(sizes.prod(axis=1).sum()) // _PIXELS_PER_TRY)
    which = np.sort(rng.integers(len(views), size=count))
    room = sizes[which] - 2 * RADIUS
    places = (RADIUS + rng.random((count, 2)) * room).astype(np.int32)
    kept = np.all(room > 0, axis=1)
    for index, mask in enumerate(masks):
        if mask is not None:
            rows = np.flatnonzero(kept & (which == index))
            for corner in _CORNERS:
                kept[rows] = kept[rows] & (_at(mask, places[rows] + corner, views[index]) > 0)
    return np.c_[which, places].astype(np.int32)[np.flatnonzero(kept)]


def _colors(found: Surfaces, views: Sequence[View], images: Sequence[np.ndarray]) -> np.ndarray:
    """Colours uint8 [P, 3] from the photographs of the downscaled `views`."""
    colors = np.empty((len(found.pixels), 3), np.uint8)
    for index in np.unique(found.pixels[:, 0]):
        rows = np.flatnonzero(found.pixels[:, 0] == index)
        colors[rows] = _at(images[index], found.pixels[rows, 1:], views[index])
    return colors


def _at(image: np.ndarray, places: np.ndarray, view: View) -> np.ndarray:
    """Values of a full-size image at pixels (column, row) [P, 2] of its downscaled view."""
    columns, rows = ((places + 0.5) * image.shape[1::-1] / (view.width, view.height)).astype(int).T
    return image[rows, columns]


NUM_NEIGHBORS = 6
_RANKS = (1, 2, 3, 5, 8, 13)  # neighbours of the first stage, by rank of distance, for a range of baselines
_FACING = 0.5  # minimum cosine between the axes of neighbours
_ANGLE, _SPREAD_BELOW, _SPREAD_ABOVE = 12.0, 5.0, 10.0  # degrees between two rays to a point: best, and deviations
_POINTS_LOOKED_AT = 100
_MIN_POINTS = 20  # per view, for its minimum depth
_NEAREST_PERCENTILE, _NEARER = 98, 1.5


@dataclass(frozen=True)
class NeighborViews:
    """neighbors: int32 [V, NUM_NEIGHBORS], views to compare each view with. nearest: float64 [V], 1 / minimum depth."""

    neighbors: np.ndarray
    nearest: np.ndarray


def neighbors_by_position(views: Sequence[View]) -> NeighborViews | None:
    """Nearby cameras with similar directions, or None. Minimum depth: half the usual distance to the next camera."""
    centers, forward = _centers(views), np.array([view.w2c[2, :3] for view in views])
    distances = np.linalg.norm(centers[:, None] - centers, axis=2)
    if not distances.any():
        return None
    to_next = np.where(distances > 0, distances, np.inf).min(axis=1)
    distances[(forward @ forward.T < _FACING) | (distances == 0)] += 2 * distances.max()  # last resort
    np.fill_diagonal(distances, np.inf)
    ranks = [min(rank, len(views) - 1) - 1 for rank in _RANKS]
    neighbors = np.argsort(distances, axis=1, kind="stable")[:, ranks]
    return NeighborViews(np.ascontiguousarray(neighbors, np.int32), np.full(len(views), 2 / np.median(to_next)))


def neighbors_by_points(views: Sequence[View], points: np.ndarray) -> NeighborViews:
    """Cameras that see the same points [P, 3] at suitable angles, neither too small nor too large."""
    centers, is_seen, inverse_depths = _centers(views), *_seen(views, points)

    def select(view: int) -> tuple[np.ndarray, float]:
        indices = np.flatnonzero(is_seen[view])
        near = inverse_depths[view, indices] if len(indices) >= _MIN_POINTS else inverse_depths[is_seen]
        nearest = _NEARER * np.percentile(near, _NEAREST_PERCENTILE)
        indices = indices[:: max(1, len(indices) // _POINTS_LOOKED_AT)]
        rays = points[indices] - centers[:, None]
        rays /= np.linalg.norm(rays, axis=2, keepdims=True)
        angles = np.degrees(np.arccos(np.clip((rays * rays[view]).sum(axis=2), -1, 1)))
        off = (angles - _ANGLE) / np.where(angles < _ANGLE, _SPREAD_BELOW, _SPREAD_ABOVE)
        worth = (np.exp(-0.5 * off**2) * is_seen[:, indices]).sum(axis=1)
        worth[view] = -1
        best = np.argsort(-worth, kind="stable")
        return best[np.minimum(np.arange(NUM_NEIGHBORS), len(views) - 2)], nearest

    with ThreadPoolExecutor() as pool:
        neighbors, nearest = zip(*pool.map(select, range(len(views))), strict=True)
    return NeighborViews(np.array(neighbors, np.int32), np.array(nearest))


def disparity(views: Sequence[View], neighbors: NeighborViews) -> float:
    """Disparity of a pixel in neighbouring views between infinity and `nearest`, in pixels: median over views."""
    centers = _centers(views)
    baselines = np.linalg.norm(centers[:, None] - centers[neighbors.neighbors], axis=2).max(axis=1)
    return float(np.median(baselines * neighbors.nearest * [view.fx for view in views]))


def _centers(views: Sequence[View]) -> np.ndarray:
    return np.array([view.center for view in views])


def _seen(views: Sequence[View], points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Visibility of points in views, bool [V, P], and 1 / depth, float64 [V, P]."""
    _, depths, inside = zip(*(view.project(points) for view in views), strict=True)
    with np.errstate(divide="ignore"):
        return np.array(inside), 1 / np.array(depths)


@dataclasses.dataclass(frozen=True)
class GrayscaleImages:
    """Views of downscaled grey copies, and their pixels uint8 on the device, concatenated.

    begins: int64 [V], offset of each. sizes: int32 [V, 2], width and height.
    """

    views: list[View]
    pixels: DeviceArray
    begins: DeviceArray
    sizes: DeviceArray

    @classmethod
    def of(
        cls, backend: Backend, views: Sequence[View], images: Sequence[np.ndarray], longer_side: int
    ) -> GrayscaleImages:
        """Copies of images uint8 [H, W, 3], downscaled to at most `longer_side` pixels."""
        small = [shrunk_view(view, longer_side) for view in views]
        with ThreadPoolExecutor() as pool:
            grays = list(pool.map(_gray, images, small))
        begins = np.cumsum([0, *(gray.size for gray in grays)])[:-1].astype(np.int64)
        sizes = np.array([(view.width, view.height) for view in small], np.int32)
        flat = np.concatenate([gray.ravel() for gray in grays])
        return cls(small, backend.upload(flat), backend.upload(begins), backend.upload(sizes))


def intrinsics(view: View) -> np.ndarray:
    """Camera matrix float64 [3, 3]."""
    return np.array([[view.fx, 0, view.cx], [0, view.fy, view.cy], [0, 0, 1.0]])


def _gray(image: np.ndarray, view: View) -> np.ndarray:
    """uint8 [H, W] of the view's size."""
    return resized_image(np.asarray(Image.fromarray(image).convert("L")), view, Image.Resampling.BOX)


RADIUS = 2  # px of a patch, as in cuda_src/image/plane_sweep.cu
_CORNERS = RADIUS * np.array([(0, 0), (-1, -1), (-1, 1), (1, -1), (1, 1)])
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


_NARROW = np.deg2rad(65)
"""Half the field of view up to which a single pinhole camera shows a photograph."""
_REACH = np.deg2rad(30)
"""Faces whose centre is farther outside the field of view are left out."""
CUBE = np.array([  # camera to face: rows are the face's right, down and forward
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]],  # ahead
    [[0, 0, -1], [0, 1, 0], [1, 0, 0]],  # right
    [[-1, 0, 0], [0, 1, 0], [0, 0, -1]],  # behind
    [[0, 0, 1], [0, 1, 0], [-1, 0, 0]],  # left
    [[1, 0, 0], [0, 0, 1], [0, -1, 0]],  # up
    [[1, 0, 0], [0, 0, -1], [0, 1, 0]],  # down
], np.float64)  # fmt: skip


def faces_of(view: View) -> list[View]:
    """Pinhole cameras that cover a view: one, or for wide lenses faces of a cube, as fine as the lens on its axis."""
    field = view.field_of_view
    if view.distortion is None or field.angle < _NARROW:
        return [view.pinhole]
    side, faces = 2 * round(view.fx), []
    for number, turn in enumerate(CUBE):
        if np.arccos(turn[2, 2]) < field.angle + _REACH:
            w2c = view.w2c.copy()
            w2c[:3] = turn @ w2c[:3]
            middle = side / 2
            faces.append(View(f"{view.name} {number}", None, side, side, middle, middle, middle, middle, w2c))
    return faces


def pinhole_pictures(photographs: ImageSet, most: int, longer_side: int) -> ImageSet:
    """The photographs, or, if some keep their lens, about `most` pinhole pictures of them, evenly spread.

    longer_side: upper limit of the width and height of pinhole pictures, in pixels.
    """
    views = photographs.views
    if all(view.distortion is None for view in views):
        return photographs

    def pictures_of(index: int) -> list[tuple[View, np.ndarray, np.ndarray]]:
        view = views[index]
        scale = min(1.0, longer_side / max(max(face.width, face.height) for face in faces_of(view)))
        small = small_copies(photographs, [index], round(scale * max(view.width, view.height)), nearest_mask)
        view, image, mask = small.views[0], small.images[0], small.masks[0]
        return [(face, *resample(view, face, image, mask)) for face in faces_of(view)]

    chosen = evenly_spread(range(len(views)), max(2, most // len(faces_of(views[0]))))
    with ThreadPoolExecutor() as pool:
        found = [entry for part in pool.map(pictures_of, chosen) for entry in part if entry[2].any()]
    return ImageSet([face for face, _, _ in found], [p for _, p, _ in found], [mask for _, _, mask in found], [])


def resample(view: View, face: View, photo: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Picture uint8 [H, W, 3] and mask uint8 [H, W] of the camera `face` at the same place, bilinear from `photo`."""
    far = 1e6 * face.rays().reshape(-1, 3)  # where a rolling shutter's change of position does not matter
    pixels, _, inside = view.project(far @ face.w2c[:3, :3] + view.center)
    x, y = np.where(inside[:, None], pixels, 0).T - 0.5
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    right, down = (x - left)[:, None], (y - top)[:, None]
    is_round = isinstance(view.distortion, Equirectangular)
    columns = [_inside(left + k, view.width, is_round) for k in (0, 1)]
    rows = [_inside(top + k, view.height, False) for k in (0, 1)]
    upper, lower = (photo[row, columns[0]] * (1 - right) + photo[row, columns[1]] * right for row in rows)
    picture = np.rint(upper * (1 - down) + lower * down).astype(np.uint8)
    keep = inside if mask is None else inside & (mask[rows[0], columns[0]] > 0)
    shape = face.height, face.width
    return picture.reshape(*shape, 3), (255 * keep).astype(np.uint8).reshape(shape)


def _inside(index: np.ndarray, size: int, is_round: bool) -> np.ndarray:
    return index % size if is_round else np.clip(index, 0, size - 1)

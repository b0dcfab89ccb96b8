"""Depth maps of splats, and their fusion: signed distances to the surface on which most views agree."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import Backend, DeviceArray, ceil_div
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.rendered_maps import in_camera, splat_normals
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View, evenly_spread

MIN_ALPHA = 0.5
"""Opacity of a pixel that shows a surface."""
_LIGHT_LEFT = (50, 60, 70, 80)
"""Candidates for the percentage of the light that is left behind a surface; pixels with MIN_ALPHA have one."""
_NUM_VIEWS, _STRIDE = 24, 4
"""Views that choose the percentage, and every how many pixels they are compared, in rows and columns."""
_MIN_FACING = 0.1
"""Minimum cosine in the weight of a pixel, so that surfaces seen only at grazing angles are kept."""
_MIN_AGREEING = 2.0
"""Sum of the weights of the views that must agree on the depth of a pixel."""
_THREADS = 128
MAX_PIXELS = 1 << 27
"""Maximum number of pixels of all maps; larger views are resized."""


@dataclass(frozen=True)
class FusedPoints:
    """Result for N points, on the device: see cuda_src/image/fuse_depths.cu."""

    distances: DeviceArray
    """[N] signed distance from -1 (behind the surface) to 1, in units of the truncation"""
    totals: DeviceArray
    """[N] sum of the weights of the views that know the point"""
    near_totals: DeviceArray
    """[N] the same, of views with a surface within the truncation"""
    colors: DeviceArray | None = None
    """[N, 3] 0 to 255"""


@dataclass
class DepthMaps:
    """Depths, weights and colours of all views on the device, concatenated.

    begins: int64 [V], first pixel of each view. depths: float32, world units along the optical axis. weights: float32,
    opacity times cosine of the angle between ray and normal; 0: no surface. colors: uint8 [pixels, 3].
    """

    backend: Backend
    views: list[View]
    cameras: CameraTable
    begins: np.ndarray
    depths: DeviceArray
    weights: DeviceArray
    colors: DeviceArray

    def of_view(self, index: int) -> tuple[DeviceArray, DeviceArray]:
        """Depths and weights of a view, float32 [H, W], not copied."""
        pixels, view = self.pixels(index), self.views[index]
        shape = view.height, view.width
        return self.depths[pixels].reshape(shape), self.weights[pixels].reshape(shape)

    def pixels(self, index: int) -> slice:
        """Where the pixels of a view are."""
        view = self.views[index]
        return slice(self.begins[index], self.begins[index] + view.width * view.height)

    def fuse(
        self, points: DeviceArray, truncation: float, chosen: np.ndarray, with_colors: bool = False
    ) -> FusedPoints:
        """Fuse the maps of the views `chosen`, int [K], at points float32 [N, 3] on the device, world units.

        truncation: world units.
        """
        backend, n = self.backend, len(points)
        distances, totals, near_totals = (backend.xp.empty(n, "float32") for _ in range(3))
        means = backend.xp.empty((n, 3), "float32") if with_colors else None
        if n:
            maps = backend.upload(self.begins), self.depths, self.weights, self.colors
            views = backend.upload(chosen.astype(np.int32)), len(chosen)
            kernel = backend.kernel("image/fuse_depths", "fuse_depths")
            inputs = *views, backend.xp.ascontiguousarray(points), n, float(truncation)
            grid = (ceil_div(n, _THREADS),)
            kernel(grid, (_THREADS,), self.cameras.array, *maps, *inputs, distances, totals, near_totals, means)
        return FusedPoints(distances, totals, near_totals, means)

    def views_near(self, center: np.ndarray, radius: float) -> np.ndarray:
        """Indices of the views whose image may show a part of a sphere, world units."""
        w2c = np.stack([view.w2c for view in self.views])
        x, y, z = (w2c[:, :3, :3] @ center + w2c[:, :3, 3]).T
        near = z > -radius
        for position, focal, middle, size in ((x, "fx", "cx", "width"), (y, "fy", "cy", "height")):
            f, c, side = (np.array([getattr(view, name) for view in self.views]) for name in (focal, middle, size))
            for slope, sign in ((-c / f, 1), ((side - c) / f, -1)):  # distance to the plane through the image's border
                near &= sign * (position - slope * z) > -radius * np.sqrt(1 + slope**2)
        return np.flatnonzero(near)

    def disagreement(self, truncation: float) -> float:
        """Mean distance of pixels from the surface of the other views, at most 1, in units of `truncation`."""
        xp, download, everyone = self.backend.xp, self.backend.download, np.arange(len(self.views))
        sums = np.zeros(2)
        for index, view in enumerate(self.views):
            depths, weights = self.of_view(index)
            fused = self.fuse(unprojected(xp, view, depths, _STRIDE), truncation, np.delete(everyone, index))
            known = download((weights[::_STRIDE, ::_STRIDE].ravel() > 0) & (fused.totals > 0))
            sums += np.abs(download(fused.distances)[known]).sum(), known.sum()
        return float(sums[0] / max(sums[1], 1))

    def without_outliers(self, truncation: float) -> DepthMaps:
        """The maps with weight 0 at pixels whose surface is not confirmed by other views within `truncation`."""
        xp, everyone = self.backend.xp, np.arange(len(self.views))
        weights = xp.empty_like(self.weights)
        for index, view in enumerate(self.views):
            depths, own = self.of_view(index)
            agreeing = self.fuse(unprojected(xp, view, depths), truncation, everyone).near_totals
            weights[self.pixels(index)] = xp.where(agreeing >= _MIN_AGREEING, own.ravel(), 0)
        return dataclasses.replace(self, weights=weights)


def unprojected(xp: Any, view: View, depths: DeviceArray, stride: int = 1) -> DeviceArray:
    """World positions float32 [pixels, 3] of every `stride`-th row and column of `depths` [H, W], row by row."""
    (x, y), depths = _slopes(xp, view, stride), depths[::stride, ::stride].astype("float32")
    right, down, forward = view.w2c[:3, :3].tolist()
    points = xp.empty((*depths.shape, 3), "float32")
    for axis, center in enumerate(view.center.tolist()):
        points[..., axis] = (right[axis] * x + (down[axis] * y + forward[axis])) * depths + center
    return points.reshape(-1, 3)


def _slopes(xp: Any, view: View, stride: int = 1) -> tuple[DeviceArray, DeviceArray]:
    """x / z float32 [W] of pixel columns and y / z float32 [H, 1] of rows, every `stride`-th."""
    column, row = np.arange(0, view.width, stride), np.arange(0, view.height, stride)[:, None]
    x, y = (column + 0.5 - view.cx) / view.fx, (row + 0.5 - view.cy) / view.fy
    return xp.asarray(x, "float32"), xp.asarray(y, "float32")


def light_left_behind(
    backend: Backend, splats: Splats, views: Sequence[View], antialias: bool, truncation: float
) -> int:
    """The percentage of the light left behind surfaces with which depth maps of a few views agree most.

    It depends on the training: if surfaces are thin and opaque, any will do. If they let much light through, half of it
    is left a few centimetres behind them, elsewhere in each view. truncation: relative to the median depth.
    """
    found: list[float] = []
    chosen, reach = evenly_spread(views, _NUM_VIEWS), 1.0
    for light_left in _LIGHT_LEFT:
        maps = render_depth_maps(backend, splats, chosen, antialias, light_left=light_left)
        if not found:
            known = backend.download(maps.depths)[backend.download(maps.weights) > 0]
            reach = truncation * float(np.median(known)) if len(known) else 1.0
        found.append(maps.disagreement(reach))
    return _LIGHT_LEFT[int(np.argmin(found))]


def render_depth_maps(
    backend: Backend,
    splats: Splats,
    views: Sequence[View],
    antialias: bool,
    count: Callable[[int], object] = lambda number: None,
    light_left: int = 50,
) -> DepthMaps:
    """Depths of all views, without distortion and resized to MAX_PIXELS in all.

    The depth of a pixel is that of the splat behind which less than `light_left` % of the light is left. The mean would
    be pulled behind the surface by the light that shines through it. count: called with 1 after each view.
    """
    shrink = min(1.0, (MAX_PIXELS / sum(view.width * view.height for view in views)) ** 0.5)
    views = [_pinhole(view, shrink) for view in views]
    sizes = [view.width * view.height for view in views]
    begins = np.cumsum([0, *sizes], dtype=np.int64)
    xp = backend.xp
    depths, weights = (xp.empty(begins[-1], "float32") for _ in range(2))
    colors = xp.empty((begins[-1], 3), "uint8")
    renderer = ViewRenderer(backend, splats, views, antialias)
    for index, view in enumerate(views):
        pixels = slice(begins[index], begins[index + 1])
        image = renderer.planes(index).reshape(3, -1)
        colors[pixels] = xp.rint(xp.nan_to_num(xp.clip(image.T, 0, 1)) * 255).astype("uint8")
        alpha = renderer.alpha_plane(index)
        depth = renderer.blended(index, in_camera(splats, view.w2c)[:, 2:], light_left)[0].copy()
        normals = renderer.blended(index, splat_normals(splats, view.w2c))
        weight = xp.where((alpha > MIN_ALPHA) & (depth > 0), alpha * _facing(xp, view, normals), 0)
        depths[pixels], weights[pixels] = depth.ravel(), weight.ravel()
        count(1)
    return DepthMaps(backend, views, renderer.cameras, begins[:-1], depths, weights, colors)


def _pinhole(view: View, shrink: float) -> View:
    plain = view.pinhole
    return plain.resized(max(1, round(view.width * shrink)), max(1, round(view.height * shrink)))


def _facing(xp: Any, view: View, normals: DeviceArray) -> DeviceArray:
    """Cosine [H, W] between the pixels' rays and normals [3, H, W] of any length, at least _MIN_FACING."""
    x, y = _slopes(xp, view)
    lengths = xp.sqrt((x**2 + (y**2 + 1)) * (normals**2).sum(axis=0))
    along = x * normals[0] + y * normals[1] + normals[2]
    return xp.maximum(-along / xp.maximum(lengths, 1e-12), _MIN_FACING)

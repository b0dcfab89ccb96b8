"""Rendering of splats from any camera; depth order of novel views; contribution of each splat to views, in pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable
from splat_cli.render.images import to_8bit
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import Projection, RasterizationSettings
from splat_cli.render.rasterizer import Coloring, Rasterizer
from splat_cli.scene.view import View


def sort_outside_by_distance(xp: Any, projection: Projection, view: View, num: int) -> None:
    """Replace, in place, depths of the first `num` projected splats if their centre is outside the image.

    Blending sorts splats by the z of their centre. For a large splat beside the camera, this differs from the depth of
    its visible part: as the centre crosses the camera plane, z approaches 0 and the splat hides everything. The new
    depth is the z of the point on the nearest ray within the image's margin at the same distance from the camera:
    unchanged inside, continuous at the margin.
    """
    depths, means2d = projection.depths[:num], projection.means2d[:num]
    with np.errstate(all="ignore"):  # rows of culled splats are undefined
        depths[...] = xp.where(depths > 0, depths * depth_factors(xp, means2d, view), 0)


def depth_factors(xp: Any, means2d: DeviceArray, view: View) -> DeviceArray:
    """Ratio of the new depth to z, [N], for points at pixels `means2d` [N, 2]; 1 inside the margin."""
    squares = clamped_squares = 1.0
    pinhole = ((view.fx, view.cx), (view.fy, view.cy))
    limits = zip(*(limit.tolist() for limit in view.slope_limits), strict=True)
    for axis, ((focal, center), (low, high)) in enumerate(zip(pinhole, limits, strict=True)):
        slopes = (means2d[:, axis] - center) / focal
        squares = squares + slopes**2
        clamped_squares = clamped_squares + xp.clip(slopes, low, high) ** 2
    return xp.sqrt(squares / clamped_squares)


class ViewRenderer:
    """Renders `splats` from any of `views`; buffers grow as needed and are reused.

    novel_views: the splats were not trained on the views (see `sort_outside_by_distance`).
    """

    def __init__(
        self,
        backend: Backend,
        splats: Splats,
        views: Sequence[View],
        antialias: bool = False,
        coloring: Coloring | None = None,
        novel_views: bool = False,
    ) -> None:
        self.backend, self.splats, self.novel_views = backend, splats, novel_views
        self.cameras = CameraTable(backend, views)
        self.rasterizer = Rasterizer(
            backend, self.cameras, splats.capacity, RasterizationSettings(antialias=antialias), coloring=coloring
        )
        self.state = IterState(backend, num_splats=splats.num, sh_degree=splats.sh_degree)

    def render(self, index: int, background: Sequence[float] = (0.0, 0.0, 0.0)) -> np.ndarray:
        """Image of view `index`, float32 [H, W, 3], not clamped."""
        self.forward(index, background)
        return self._download(index)

    def planes(self, index: int, background: Sequence[float] = (0.0, 0.0, 0.0)) -> DeviceArray:
        """Image of view `index` on the device, float32 [3, H, W], not clamped; valid until the next render."""
        self.forward(index, background)
        return self.rasterizer.image(index)

    def forward(self, index: int, background: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        """Render view `index` into the rasterizer's buffers."""
        self.state.write(view=index, background=background, overflowed=0)
        by_distance = self.cameras.lenses is not None  # already
        order = partial(self._sort_outside_by_distance, index) if self.novel_views and not by_distance else None
        while True:
            self.state.clear_counts()
            self.rasterizer.forward(self.splats, self.state, before_sort=order)
            if not self.rasterizer.grow_if_overflowed(self.state):
                return

    def _sort_outside_by_distance(self, index: int) -> None:
        projection, view = self.rasterizer.projection, self.cameras.views[index]
        sort_outside_by_distance(self.backend.xp, projection, view, self.splats.num)

    def alpha(self, index: int) -> np.ndarray:
        """Opacity of the last view, `index`: float32 [H, W], 0 to 1."""
        alpha: np.ndarray = self.backend.download(self.alpha_plane(index))
        return alpha

    def alpha_plane(self, index: int) -> DeviceArray:
        """`alpha` on the device."""
        view = self.cameras.views[index]
        return 1 - self.rasterizer.rendered.final_T[: view.height * view.width].reshape(view.height, view.width)

    def blended(self, index: int, values: DeviceArray, light_left: int | None = None) -> DeviceArray:
        """Blend values other than colours in the last view, `index`, over zero.

        values: float32 [num, C] on the device, C <= 3, of any sign. light_left: see `render.blend.blend`. Returns
        float32 [3, H, W] on the device, of which the first C planes are used; valid until the next render.
        """
        self.state.write(background=(0.0, 0.0, 0.0))
        self.rasterizer.blend_values(self.state, values, light_left)
        return self.rasterizer.image(index)

    def _download(self, index: int) -> np.ndarray:
        image = self.backend.download(self.rasterizer.image(index))
        return np.ascontiguousarray(image.transpose(1, 2, 0))


def render_image(
    splats: Splats,
    view: View,
    background: Sequence[float],
    antialias: bool,
    coloring: Coloring | None = None,
    novel_view: bool = False,
) -> np.ndarray:
    """Image of one view, uint8 [H, W, 3]. For several views, use a ViewRenderer, which keeps buffers. UsageError."""
    view.check()
    renderer = ViewRenderer(splats.backend, splats, [view], antialias, coloring, novel_views=novel_view)
    return to_8bit(renderer.render(0, background))


def view_contributions(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> Iterator[DeviceArray]:
    """Blending weight of every splat, summed over the pixels of each view: an iterator of device arrays float32 [N].

    Rendered with antialiasing if the splats were trained with it.
    """
    if len(splats) == 0:
        yield from (backend.xp.zeros(0, "float32") for _ in views)
        return
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, splats.antialiased)
    for index in range(len(views)):
        renderer.forward(index)
        yield last_contributions(renderer)


def last_contributions(renderer: ViewRenderer) -> DeviceArray:
    """Blending weight of every splat, summed over the pixels of the last rendered view: device array float32 [num]."""
    xp = renderer.backend.xp
    scores = xp.zeros((renderer.splats.capacity, 2), "float32")
    renderer.rasterizer.score(renderer.state, xp.zeros(3 * renderer.cameras.max_pixels, "float32"), scores)
    return scores[: renderer.splats.num, 0]


def contributions(backend: Backend, splats: SplatArrays, views: Sequence[View]) -> np.ndarray:
    """Mean of `view_contributions` over the views, float32 [N]; density control uses the same measure."""
    return backend.download(sum(view_contributions(backend, splats, views))) / np.float32(len(views))

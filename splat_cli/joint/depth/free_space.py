"""Opacity in front of points, and its penalty: host side of cuda_src/optim/free_space.cu."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.config.combinations import uses_free_space
from splat_cli.device import Backend, DeviceArray, MemoryCost, Unit, ceil_div
from splat_cli.joint.joint_model import JointInputs, JointModel
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.points.observations import MAX_POINTS, Observations, observe
from splat_cli.scene.view import View

FREE_SPACE_KERNELS: list[Unit] = [("optim/free_space", {})]
WARPS = 4  # per block; each warp processes one point


class FreeSpaceRays:
    """Rays from the views to the points that they see, on the device."""

    def __init__(self, backend: Backend, seen: Observations) -> None:
        self.backend, upload = backend, backend.upload
        self.begins, self.pixels, self.inverse_depths = map(upload, (seen.begins, seen.pixels, seen.inverse_depths))
        self.most_points = int(np.diff(seen.begins).max(initial=0))

    def opacities(self, state: IterState, rasterizer: Rasterizer, out: DeviceArray | None = None) -> DeviceArray:
        """Queue the opacities in the free space of the state's view, after its tile lists are built.

        Writes the opacities of the view's points, 0 to 1, to `out`, float32 [points of all views], and returns it. By
        default, `out` starts as zeros.
        """
        out = self.backend.xp.zeros(len(self.pixels), "float32") if out is None else out
        self._launch(state, rasterizer, 0.0, out, None)
        return out

    def add_splat_loss(self, state: IterState, rasterizer: Rasterizer, weight: float) -> None:
        """Queue the gradients of `weight` times the mean of squares of these opacities.

        They are added to the gradients of projected splats, before or after blend_backward (before it in
        deterministic runs).
        """
        projection = rasterizer.projection
        if projection.fixed_sums is None:
            self._launch(state, rasterizer, weight, None, projection.d_splats)
        else:
            self._launch(state, rasterizer, weight, None, projection.fixed_sums, FIXED_SUMS=1)

    def count(self, state: IterState, rasterizer: Rasterizer, is_clear: DeviceArray, counts: DeviceArray) -> None:
        """Queue the numbers of rays of the state's view that hit each splat, after its tile lists are built.

        is_clear: int32 [points of all views], whether the photograph shows the point. counts: float32 [capacity, 3],
        to which are added: clear rays that pass the splat in free space, other rays that do, and rays to points at the
        splat's depth. A ray counts as the falloff of the splat where it passes, 0 to 1.
        """
        if not self.most_points:
            return
        projection, tiles = rasterizer.projection, rasterizer.tiles
        points = self.begins, self.pixels, self.inverse_depths, is_clear
        lists = tiles.tile_begins, tiles.splat_from_pair
        splats = projection.depths, projection.means2d, projection.conic_opacity
        kernel = self.backend.kernel("optim/free_space", "count_rays")
        blocks = (ceil_div(self.most_points, WARPS),)
        arrays = *points, *lists, *splats, counts
        kernel(blocks, (32, WARPS), rasterizer.cameras.array, state.array, *arrays)

    def _launch(
        self,
        state: IterState,
        rasterizer: Rasterizer,
        weight: float,
        opacities: DeviceArray,
        d_splats: DeviceArray,
        **defines: int,
    ) -> None:
        if not self.most_points:
            return
        projection, tiles = rasterizer.projection, rasterizer.tiles
        points = self.begins, self.pixels, self.inverse_depths
        lists = tiles.tile_begins, tiles.splat_from_pair
        splats = projection.depths, projection.means2d, projection.conic_opacity
        kernel = self.backend.kernel("optim/free_space", "free_space", **defines)
        kernel(
            (ceil_div(self.most_points, WARPS),),
            (32, WARPS),
            rasterizer.cameras.array,
            state.array,
            *points,
            float(weight),
            *lists,
            *splats,
            opacities,
            d_splats,
        )


class FreeSpaceLoss(JointModel):
    """Mean squared opacity in front of the dataset's points, as the views see them.

    weight: weight in the loss. points: float32 [P, 3], or what views see of them.
    """

    PROJECTS_AHEAD = True

    def __init__(
        self, backend: Backend, views: Sequence[View], points: np.ndarray | Observations, weight: float
    ) -> None:
        self.backend, self.points, self.weight = backend, points, weight
        self.set_views(views)

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return uses_free_space(config)

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return FREE_SPACE_KERNELS

    @classmethod
    def make(cls, inputs: JointInputs) -> FreeSpaceLoss | None:
        """See JointModel.make: None without points in the scene."""
        if inputs.points is None:
            return None
        return cls(inputs.backend, inputs.cameras.current_views, inputs.points, inputs.config.free_space)

    @staticmethod
    def memory_cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        return MemoryCost(fixed=8 * MAX_POINTS * num_views)

    def set_views(self, views: Sequence[View]) -> None:
        self.rays = FreeSpaceRays(self.backend, observe(views, self.points))

    def add_splat_loss(self, state: IterState, rasterizer: Rasterizer) -> None:
        self.rays.add_splat_loss(state, rasterizer, self.weight)

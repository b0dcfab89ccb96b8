"""Interface of joint models: parameters optimised jointly with the splats.

Some have parameters per photograph or camera; their kernels include cuda_src/optim/per_view.cuh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend, DeviceArray, MemoryCost, Unit
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.appearance.camera_response import CameraResponse
from splat_cli.model.model import Model
from splat_cli.render.blend import RenderBuffers
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.depth_maps import DepthMaps
from splat_cli.scene.points.observations import Observations
from splat_cli.scene.view import View

# Blocks and threads of a sum over all splats. On the CPU, one thread per block, because barriers are slow.
SUM_BLOCKS = {"cuda": 264, "cpu": 32}
SUM_THREADS = {"cuda": 128, "cpu": 1}
# Blocks and warps of a pass over all pixels: each warp writes one row of sums.
PIXEL_BLOCKS, PIXEL_WARPS = 132, 8


class Decay(NamedTuple):
    """Exponential decay of a learning rate from `first` to `last` over `steps` steps."""

    first: float
    last: float
    steps: int


def camera_rows(backend: Backend, views: Sequence[View]) -> tuple[np.ndarray, DeviceArray]:
    """Camera ids, one per row of camera parameters, and the row of each view, int32 [num_views] on the device."""
    ids, rows = np.unique([view.camera_id for view in views], return_inverse=True)
    return ids, backend.upload(rows.astype(np.int32))


@dataclass(frozen=True)
class JointInputs:
    """Inputs of the constructors of joint models.

    background: float32 [3] on the device, read at the start of each step. extent: scene size in world units. splats:
    initial splats. points: as of TrainingInputs. pose_offsets: float32 [V, 6, 9 or 11], or None.
    depth_maps: depth maps of the training views, or None.
    """

    backend: Backend
    cameras: CameraTable
    config: ResolvedConfig
    background: DeviceArray
    extent: float
    splats: Splats
    points: np.ndarray | Observations | None = None
    pose_offsets: np.ndarray | None = None
    depth_maps: DepthMaps | None = None


class JointModel:
    """Parameters optimised jointly with the splats. Every method does nothing unless a model overrides it.

    ROLE: the part that the model replaces, if any: "loss" (a PhotometricLoss), "mask" of its pixels (an OutlierMask),
    "coloring" of the splats (a Coloring), "poses" of the cameras (a PoseRefinement).
    LATE_ARRAYS: names in `arrays` that checkpoints of earlier versions lack; `make` computes them from the initial
    splats.
    PROJECTS_AHEAD: whether views of a batch do not depend on each other: the next one may be projected before this
    one's step, or rendered at the same time. Such a model only adds losses: it has no parameters and no buffers.
    """

    ROLE: ClassVar[str | None] = None
    LATE_ARRAYS: ClassVar[tuple[str, ...]] = ()
    PROJECTS_AHEAD: ClassVar[bool] = False

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        """Whether the settings enable the model; otherwise it is not constructed, counted or compiled."""
        raise NotImplementedError

    @classmethod
    def make(cls, inputs: JointInputs) -> JointModel | None:
        """The model of a run that enables it; None if the scene lacks its input, such as points."""
        raise NotImplementedError

    @staticmethod
    def memory_cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        """Device memory of the model, if enabled."""
        return MemoryCost()

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        """Kernel files and defines of the model, if enabled; compiled while photographs are read."""
        return []

    @staticmethod
    def moves_splats(config: TrainConfig) -> bool:
        """Whether the model, if enabled, writes gradients of positions to projection.d_means. At most one may."""
        return False

    def resize(self, capacity: int) -> None:
        """Allocate buffers for `capacity` splats."""

    def add_image_loss(self, state: IterState, rendered: RenderBuffers) -> None:
        """Queue another loss of the rendered image: add its gradient to rendered.d_image, float32 planes [3, H, W].

        d_image already holds the gradient of the photometric loss.
        """

    def add_splat_loss(self, state: IterState, rasterizer: Rasterizer) -> None:
        """Queue a loss of projected splats: add its gradients to projection.d_splats, before blending adds its own."""

    def accumulate_gradients(self, splats: Splats, state: IterState, rasterizer: Rasterizer) -> None:
        """Queue gradient sums, after the backward pass of blending and before the update of the splats."""

    def step(self, state: IterState) -> None:
        """Queue one optimiser step, after each view."""

    def update(self, model: Model, state: IterState, views: DeviceArray | None, dense: bool) -> None:
        """Queue one optimiser step after the last view of a batch, for models that sum gradients over its views.

        model: the splats, after the rasterizer's update. views: `struct BatchView` (cuda_src/common.cuh) of the batch,
        or None without batches. dense: see render.project_backward.Update.
        """

    def arrays(self) -> dict[str, DeviceArray]:
        """The model's state: device arrays by name, saved in checkpoints."""
        return {}

    def refresh(self) -> None:
        """Recompute derived state after `arrays` were written to."""

    def set_views(self, views: Sequence[View]) -> None:
        """Adapt to a new resolution of the training views, between two steps."""

    def constrain(self) -> None:
        """Apply constraints between the parameters, every `densify_interval` steps."""

    def background_color(self) -> tuple[float, float, float] | None:
        """The learned background colour, 0 to 1, or None."""
        return None

    def camera_responses(self) -> dict[int, CameraResponse]:
        """Vignetting and response by camera id, to be applied to a render before comparing it with a photograph."""
        return {}

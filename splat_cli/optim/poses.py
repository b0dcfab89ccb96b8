"""Refinement of the training cameras' poses: host side of cuda_src/optim/pose.cu."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.device.compiled_units import Unit
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.auxiliary_model import AuxiliaryModel, TrainingSetup
from splat_cli.optim.per_view import SUM_BLOCKS, SUM_THREADS, Decay
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.poses import moved_views
from splat_cli.scene.view import View

_DECAY = 0.01  # what the rate has shrunk to at the end
_MIN_VISITS = 10  # fewer do not make up for it by larger steps


def pose_decay(travel: float, num_views: int, steps: int) -> Decay:
    """The rates with which a camera may rotation by `travel` degrees in all of a run's visits of it.

    Adam moves by about the rate each time, so that without this it would be the number of visits which decides.
    """
    visits = max(steps / num_views, _MIN_VISITS)
    mean = (1 - (1 - _DECAY) / math.log(_DECAY)) / 2  # of 1 and then of what decays exponentially to _DECAY
    first = math.radians(travel) / (visits * mean)
    return Decay(first, _DECAY * first, steps)


class PoseRefinement(AuxiliaryModel):
    """Offsets of all cameras of a table, which move by gradients and move the cameras with them.

    offsets: float32 [num_views, 3, 6]: rotation (radians) and translation (world units) as `scene.poses.moved_pose`
    takes them, then Adam's first and second moments. All zero at the start. decay: radians a visit, the
    first half of the steps at its first rate; with a radian of rotation goes `extent` of translation.
    """

    def __init__(self, backend: Backend, cameras: CameraTable, decay: Decay, extent: float) -> None:
        self.backend, self.cameras, self.decay, self.extent = backend, cameras, decay, extent
        self.originals = cameras.array.copy()
        self.offsets = backend.xp.zeros((len(cameras.views), 3, 6), "float32")
        self.d_pose = backend.xp.zeros((SUM_BLOCKS[backend.name], 6), "float32")

    @staticmethod
    def wanted(config: TrainConfig) -> bool:
        return config.pose_opt

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/pose", {})]

    @classmethod
    def make(cls, setup: TrainingSetup) -> PoseRefinement:
        """See AuxiliaryModel.make."""
        config, cameras = setup.config, setup.cameras
        decay = pose_decay(config.pose_travel, len(cameras.views), config.steps)
        poses = cls(setup.backend, cameras, decay, setup.extent)
        if setup.pose_offsets is not None:
            poses.start_from(setup.pose_offsets)
        return poses

    def accumulate(self, splats: Splats, state: IterState, rasterizer: Rasterizer, d_means: Any | None) -> None:
        """Sum the gradient of the state's view. Reads projection.d_splats; the splats must be as rendered.

        Leaves rows of sums in d_pose [.., 6]: by rotation about the camera's centre and by translation, in its axes.
        """
        projection = rasterizer.projection
        self.backend.kernel("optim/pose", "pose_backward")(
            (len(self.d_pose),), (SUM_THREADS[self.backend.name],),
            self.cameras.array, state.array, splats.capacity, int(rasterizer.antialias), projection.depths,
            projection.colors, projection.d_splats, splats.params, splats.filters, self.d_pose,
        )  # fmt: skip

    def step(self, state: IterState) -> None:
        """One step of Adam on the state's view, whose camera moves."""
        decay = self.decay
        self.backend.kernel("optim/pose", "step_pose")(
            (1,), (SUM_THREADS[self.backend.name],),
            state.array, self.originals, self.cameras.array, self.d_pose, len(self.d_pose), len(self.offsets),
            decay.first, decay.last, float(self.extent), decay.steps, self.offsets,
        )  # fmt: skip

    def arrays(self) -> dict[str, Any]:
        return {"poses": self.offsets}

    def refresh(self) -> None:
        """Move all cameras to their offset poses."""
        self.backend.kernel("optim/pose", "place_cameras")(
            (-(-len(self.offsets) // 32),), (32,), self.originals, self.cameras.array, len(self.offsets), self.offsets,
        )  # fmt: skip

    def start_from(self, offsets: np.ndarray) -> None:
        """Move all cameras by `offsets` [num_views, 6] before the first step."""
        self.offsets[:, 0] = self.backend.upload(offsets.astype(np.float32))
        self.refresh()

    def current(self) -> np.ndarray:
        """How far the cameras have moved, float32 [num_views, 6]."""
        return self.backend.download(self.offsets)[:, 0]

    def refined_views(self) -> list[View]:
        """The table's views at the poses they have now."""
        return moved_views(self.cameras.views, self.current())

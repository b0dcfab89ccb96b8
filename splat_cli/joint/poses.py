"""Refinement of the training cameras' poses: host side of cuda_src/optim/pose.cu."""

from __future__ import annotations

import math

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, DeviceArray, Kernel, Unit, ceil_div
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.joint_model import SUM_BLOCKS, SUM_THREADS, Decay, JointInputs, JointModel
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.poses import moved_views
from splat_cli.scene.view import View

_DECAY = 0.01  # final learning rate, relative to the first
_MIN_VISITS = 10  # with fewer visits, steps do not get larger


def pose_decay(travel: float, num_views: int, steps: int) -> Decay:
    """Learning rates that let a camera rotate by `travel` degrees in a run.

    An Adam step is about as large as the learning rate, so a fixed rate would tie the range to the number of visits.
    """
    visits = max(steps / num_views, _MIN_VISITS)
    mean = (1 - (1 - _DECAY) / math.log(_DECAY)) / 2  # mean of a rate that is 1, then decays exponentially to _DECAY
    first = math.radians(travel) / (visits * mean)
    return Decay(first, _DECAY * first, steps)


def num_intrinsics(cameras: CameraTable) -> int:
    """Number of intrinsics for which pose_backward computes gradients, as in cuda_src/optim/pose.cuh."""
    return 5 if cameras.radial else 3


class PoseRefinement(JointModel):
    """Pose offsets of all cameras in a table, optimised with the splats.

    offsets: float32 [num_views, 3, 6]: rotation (radians) and translation (world units) as in `scene.poses.moved_pose`,
    then Adam's first and second moments; initially zero. decay: radians per visit, constant during the first half of
    the steps; translations move by `extent` times this number of world units.
    """

    ROLE = "poses"

    def __init__(self, backend: Backend, cameras: CameraTable, decay: Decay, extent: float) -> None:
        self.backend, self.cameras, self.decay, self.extent = backend, cameras, decay, extent
        self.originals = cameras.array.copy()
        self.offsets = backend.xp.zeros((len(cameras.views), 3, 6), "float32")
        self.d_pose = backend.xp.zeros((SUM_BLOCKS[backend.name], 6 + num_intrinsics(cameras)), "float32")

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.pose_opt and not config.refine_intrinsics

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/pose", {})]

    @classmethod
    def make(cls, inputs: JointInputs) -> PoseRefinement:
        config, cameras = inputs.config, inputs.cameras
        decay = pose_decay(config.pose_travel, len(cameras.views), config.steps)
        poses = cls._from_rates(inputs, decay)
        if inputs.pose_offsets is not None:
            poses.start_from(inputs.pose_offsets)
        return poses

    @classmethod
    def _from_rates(cls, inputs: JointInputs, decay: Decay) -> PoseRefinement:
        return cls(inputs.backend, inputs.cameras, decay, inputs.extent)

    def accumulate_gradients(self, splats: Splats, state: IterState, rasterizer: Rasterizer) -> None:
        """Sum the gradient of the state's pose. Reads projection.d_splats; `splats` must be the rendered ones.

        Writes rows of sums to d_pose [.., 6 + num_intrinsics]: rotation about the camera centre and translation, in
        camera axes; logarithm of the focal lengths, principal point (px); k1 and k2 of cameras with radial distortion.
        """
        projection = rasterizer.projection
        sizes = splats.capacity, int(rasterizer.settings.antialias)
        projected = projection.depths, projection.colors, projection.d_splats
        inputs = self.cameras.array, state.array, *sizes, *projected, splats.params, splats.smooth_3d_sigmas
        self._kernel("pose_backward")((len(self.d_pose),), (SUM_THREADS[self.backend.name],), *inputs, self.d_pose)

    def step(self, state: IterState) -> None:
        """One Adam step on the state's view; updates its camera in the table."""
        decay = self.decay
        sums = self.d_pose, len(self.d_pose), len(self.offsets)
        rates = decay.first, decay.last, float(self.extent), decay.steps
        arrays = state.array, self.originals, self.cameras.array, *sums, *rates, self.offsets
        self._kernel("step_pose")((1,), (SUM_THREADS[self.backend.name],), *arrays)

    def arrays(self) -> dict[str, DeviceArray]:
        return {"poses": self.offsets}

    def refresh(self) -> None:
        """Update all cameras in the table to their offset poses."""
        arrays = self.originals, self.cameras.array, len(self.offsets), self.offsets
        self._kernel("place_cameras")((ceil_div(len(self.offsets), 32),), (32,), *arrays)

    def start_from(self, offsets: np.ndarray) -> None:
        """Set the offsets of all cameras to `offsets` [num_views, 6], before the first step."""
        self.offsets[:, 0] = self.backend.upload(offsets.astype(np.float32))
        self.refresh()

    def current(self) -> np.ndarray:
        """Pose offsets, float32 [num_views, 6]."""
        return self.backend.download(self.offsets)[:, 0]

    def refined_views(self) -> list[View]:
        """The training views at their refined poses."""
        return moved_views(self.cameras.views, self.current())

    def _kernel(self, name: str) -> Kernel:
        return self.backend.kernel("optim/pose", name, **self.cameras.defines)

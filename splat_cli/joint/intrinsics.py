"""Refinement of the cameras' intrinsics with their poses: host side of cuda_src/optim/intrinsics.cu."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, DeviceArray, Kernel, Unit, ceil_div
from splat_cli.joint.joint_model import SUM_THREADS, Decay, JointInputs, camera_rows
from splat_cli.joint.poses import PoseRefinement, num_intrinsics
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.scene.view import View

_TRAVEL = 0.2  # maximum change of the logarithm of a focal length, and of a principal point in focal lengths
_DECAY = 0.01  # final learning rate, relative to the first


def first_rates(num_photographs: np.ndarray, steps: int) -> np.ndarray:
    """Learning rates [C] that let each camera travel by _TRAVEL in a run; num_photographs: [C], per camera."""
    visits = np.maximum(steps * num_photographs / num_photographs.sum(), 1.0)
    return _TRAVEL / (visits * (1 - _DECAY) / -math.log(_DECAY))


def rotation_offsets(view: View) -> np.ndarray:
    """Offsets [5] of intrinsics that move the farthest corner like a rotation by one radian, to first order."""
    x = max(view.cx, view.width - view.cx) / view.fx
    y = max(view.cy, view.height - view.cy) / view.fy
    slope = math.hypot(x, y)
    return np.array([1 / slope, 1, 1, slope**-3, slope**-5])


class CameraRefinement(PoseRefinement):
    """Refines the poses of all cameras of a table, and the intrinsics that views with the same camera id share.

    intrinsics: float32 [num_cameras, 3, 3, or 5 with `distortion`]: logarithm of the factor of both focal lengths,
    shift of the principal point in focal lengths, radial distortion k1, k2; then Adam's first and second moments; all
    zero at the start. `weight` times their squares, in the loss, keeps them near zero. rates, limits: step sizes, see
    cuda_src/optim/intrinsics.cu: a step moves image points at most as far as a step of the pose. Photographs are
    undistorted with the given lens when they are loaded; k1 and k2 are the remaining distortion, used to
    project splats.
    """

    def __init__(
        self,
        backend: Backend,
        cameras: CameraTable,
        decay: Decay,
        extent: float,
        weight: float,
        distortion: bool = False,
    ) -> None:
        if distortion:
            cameras.allow_radial()
        super().__init__(backend, cameras, decay, extent)
        self.weight = weight
        _, self.camera_from_view = camera_rows(backend, cameras.views)
        _, views, counts = np.unique([view.camera_id for view in cameras.views], return_index=True, return_counts=True)
        limits = [rotation_offsets(cameras.views[row])[: num_intrinsics(cameras)] for row in views]
        self.rates = backend.upload(first_rates(counts, decay.steps).astype(np.float32))
        self.limits = backend.upload(np.array(limits, np.float32))
        self.intrinsics = backend.xp.zeros((len(counts), 3, num_intrinsics(cameras)), "float32")
        self.camera_steps = backend.xp.zeros(len(counts), "float32")
        self.given = _given(backend, cameras.current_views)

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.pose_opt and config.refine_intrinsics

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        defines = {"RADIAL_DISTORTION": 1} if config.refine_distortion else {}
        return [("optim/pose", defines), ("optim/intrinsics", defines)]

    @classmethod
    def _from_rates(cls, inputs: JointInputs, decay: Decay) -> CameraRefinement:
        config = inputs.config
        weights = config.intrinsics_reg, config.refine_distortion
        return cls(inputs.backend, inputs.cameras, decay, inputs.extent, *weights)

    def step(self, state: IterState) -> None:
        """One step of Adam on the pose of the state's view and on the intrinsics of its camera."""
        super().step(state)
        inputs = self.given, self.camera_from_view, self.d_pose, len(self.d_pose), len(self.offsets)
        rates = float(self.weight), self.rates, _DECAY, self.limits, *self.decay
        outputs = self.intrinsics, self.camera_steps, self.cameras.array
        kernel, block = self._intrinsics_kernel("step_intrinsics"), (SUM_THREADS[self.backend.name],)
        kernel((1,), block, state.array, *inputs, *rates, *outputs)

    def arrays(self) -> dict[str, DeviceArray]:
        return super().arrays() | {"intrinsics": self.intrinsics, "intrinsics_steps": self.camera_steps}

    def refresh(self) -> None:
        """Move all cameras to their offset poses, and set their intrinsics."""
        super().refresh()
        num_views = len(self.offsets)
        arrays = self.given, self.camera_from_view, num_views, self.intrinsics, self.cameras.array
        self._intrinsics_kernel("place_all_intrinsics")((ceil_div(num_views, 32),), (32,), *arrays)

    def set_views(self, views: Sequence[View]) -> None:
        """See JointModel.set_views: the table holds the given intrinsics again, for images of another size."""
        self.given = _given(self.backend, views)
        self.refresh()

    def start_from(self, offsets: np.ndarray) -> None:
        """See PoseRefinement.start_from; offsets as `current` returns them.

        Views of one camera have the same intrinsics. Offsets [num_views, 9], without k1 and k2, leave both unchanged.
        """
        rows = np.unique(self.backend.download(self.camera_from_view), return_index=True)[1]
        intrinsics = self.backend.upload(offsets[rows, 6:].astype(np.float32))
        self.intrinsics[:, 0, : intrinsics.shape[1]] = intrinsics
        super().start_from(offsets[:, :6])

    def current(self) -> np.ndarray:
        """How far poses and intrinsics have moved, float32 [num_views, 9], or [num_views, 11] with distortion."""
        intrinsics = self.backend.download(self.intrinsics)[:, 0]
        return np.hstack([super().current(), intrinsics[self.backend.download(self.camera_from_view)]])

    def _intrinsics_kernel(self, name: str) -> Kernel:
        return self.backend.kernel("optim/intrinsics", name, **self.cameras.defines)


def _given(backend: Backend, views: Sequence[View]) -> DeviceArray:
    """float32 [num_views, 6]: fx, fy, cx, cy, k1, k2."""
    return backend.upload(np.array([(view.fx, view.fy, view.cx, view.cy, *view.radial) for view in views], np.float32))

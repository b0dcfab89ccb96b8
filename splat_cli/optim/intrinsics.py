"""Refinement of the cameras' intrinsics with their poses: host side of cuda_src/optim/intrinsics.cu."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, Kernel
from splat_cli.device.compiled_units import Unit
from splat_cli.optim.auxiliary_model import TrainingSetup
from splat_cli.optim.per_view import SUM_THREADS, Decay, camera_rows
from splat_cli.optim.poses import PoseRefinement, num_intrinsics
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.scene.view import View

_TRAVEL = 0.2  # of the logarithm of a camera's focal length, and of its principal point in focal lengths, at most
_DECAY = 0.01  # what the rate has shrunk to at the end


def intrinsics_decay(num_cameras: int, steps: int) -> Decay:
    """The rates with which a camera may travel as far as it may in all steps of its views, about."""
    visits = max(steps / num_cameras, 1.0)
    first = _TRAVEL / (visits * (1 - _DECAY) / -math.log(_DECAY))
    return Decay(first, _DECAY * first, steps)


class CameraRefinement(PoseRefinement):
    """Refines the poses of all cameras of a table, and the intrinsics that views of one camera id share.

    intrinsics: float32 [num_cameras, 3, 3, or 5 with `distortion`]: logarithm of the factor of both focal lengths,
    shift of the principal point in focal lengths, radial distortion k1, k2; then Adam's first and second moments; all
    zero at the start. `weight` times their squares keeps them near zero. Photographs are undistorted with the given
    lens when they are loaded: the distortion is what is left in them, and splats are projected with it.
    """

    def __init__(
        self, backend: Backend, cameras: CameraTable, decay: Decay, extent: float, intrinsics_decay: Decay,
        weight: float, distortion: bool = False,
    ) -> None:  # fmt: skip
        cameras.radial = cameras.radial or distortion
        super().__init__(backend, cameras, decay, extent)
        self.intrinsics_decay, self.weight = intrinsics_decay, weight
        numbers, self.camera_from_view = camera_rows(backend, cameras.views)
        self.intrinsics = backend.xp.zeros((len(numbers), 3, num_intrinsics(cameras)), "float32")
        self.camera_steps = backend.xp.zeros(len(numbers), "float32")
        self.given = _given(backend, cameras.current_views)

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.pose_opt and config.refine_intrinsics

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        defines = {"RADIAL_DISTORTION": 1} if config.refine_distortion else {}
        return [("optim/pose", defines), ("optim/intrinsics", defines)]

    @classmethod
    def _from_rates(cls, setup: TrainingSetup, decay: Decay) -> CameraRefinement:
        config = setup.config
        num_cameras = len({view.camera_id for view in setup.cameras.views})
        rates = intrinsics_decay(num_cameras, config.steps)
        return cls(
            setup.backend, setup.cameras, decay, setup.extent, rates, config.intrinsics_reg, config.refine_distortion
        )  # fmt: skip

    def step(self, state: IterState) -> None:
        """One step of Adam on the pose of the state's view and on the intrinsics of its camera."""
        super().step(state)
        decay = self.intrinsics_decay
        self._intrinsics_kernel("step_intrinsics")(
            (1,), (SUM_THREADS[self.backend.name],),
            state.array, self.given, self.camera_from_view, self.d_pose, len(self.d_pose), len(self.offsets),
            float(self.weight), decay.first, decay.last, decay.steps, self.intrinsics, self.camera_steps,
            self.cameras.array,
        )  # fmt: skip

    def arrays(self) -> dict[str, Any]:
        return super().arrays() | {"intrinsics": self.intrinsics, "intrinsics_steps": self.camera_steps}

    def refresh(self) -> None:
        """Move all cameras to their offset poses, and set their intrinsics."""
        super().refresh()
        num_views = len(self.offsets)
        self._intrinsics_kernel("place_all_intrinsics")(
            (-(-num_views // 32),), (32,), self.given, self.camera_from_view, num_views, self.intrinsics,
            self.cameras.array,
        )  # fmt: skip

    def set_views(self, views: Sequence[View]) -> None:
        """See AuxiliaryModel.set_views: the table has the given intrinsics again, of pictures of another size."""
        self.given = _given(self.backend, views)
        self.refresh()

    def start_from(self, offsets: np.ndarray) -> None:
        """See PoseRefinement.start_from; offsets as of `current`, the intrinsics of a camera's views alike."""
        rows = np.unique(self.backend.download(self.camera_from_view), return_index=True)[1]
        self.intrinsics[:, 0] = self.backend.upload(offsets[rows, 6:].astype(np.float32))
        super().start_from(offsets[:, :6])

    def current(self) -> np.ndarray:
        """How far poses and intrinsics have moved, float32 [num_views, 9], or [num_views, 11] with distortion."""
        intrinsics = self.backend.download(self.intrinsics)[:, 0]
        return np.hstack([super().current(), intrinsics[self.backend.download(self.camera_from_view)]])

    def _intrinsics_kernel(self, name: str) -> Kernel:
        return self.backend.kernel("optim/intrinsics", name, **self.cameras.defines)


def _given(backend: Backend, views: Sequence[View]) -> Any:
    """float32 [num_views, 6]: fx, fy, cx, cy, k1, k2."""
    return backend.upload(np.array([(view.fx, view.fy, view.cx, view.cy, *view.radial) for view in views], np.float32))

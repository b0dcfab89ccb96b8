"""What a run trains besides the splats: poses of cameras, exposures of photographs."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.exposure import ExposedLoss
from splat_cli.optim.loss import PhotometricLoss
from splat_cli.optim.per_view import Decay
from splat_cli.optim.poses import PoseRefinement
from splat_cli.render.camera import CameraTable
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.render.step import StepState


class Besides:
    """Poses and exposure are None where the settings do not ask for them, and then take no time.

    extent: of the scene, world units. loss: of the settings, with exposure or without.
    """

    def __init__(self, backend: Backend, cameras: CameraTable, config: TrainConfig, extent: float) -> None:
        self.backend = backend
        self.poses: PoseRefinement | None = None
        self.exposure: ExposedLoss | None = None
        if config.pose_opt:
            decay = Decay(config.lr_poses, config.lr_poses_final, config.steps)
            self.poses = PoseRefinement(backend, cameras, decay, extent)
        if config.exposure:
            decay = Decay(config.lr_exposure, config.lr_exposure_final, config.steps)
            self.exposure = ExposedLoss(backend, cameras, config.ssim_weight, decay, config.exposure_reg)
        self.loss = self.exposure or PhotometricLoss(backend, cameras, config.ssim_weight)

    def backward(self, splats: Splats, state: StepState, rasterizer: Rasterizer) -> None:
        """Queue what needs the splats as they were rendered, between the two backward passes of the rasterizer."""
        if self.poses:
            self.poses.backward(splats, state, rasterizer.antialias, rasterizer.projection)

    def step(self, state: StepState) -> None:
        """Queue the steps of their optimisers."""
        for trained in (self.poses, self.exposure):
            if trained:
                trained.step(state)

    def arrays(self) -> dict[str, Any]:
        """All that is trained here, by name: float32 arrays that `load` takes back."""
        arrays = {"poses": self.poses.offsets} if self.poses else {}
        return arrays | ({"exposures": self.exposure.exposures} if self.exposure else {})

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on with what `arrays` gave."""
        for name, array in self.arrays().items():
            array[...] = self.backend.upload(arrays[name])
        if self.poses:
            self.poses.place()

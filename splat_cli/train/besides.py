"""What a run trains besides the splats: poses of cameras."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.poses import PoseRates, PoseRefinement
from splat_cli.render.camera import CameraTable
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.render.step import StepState


class Besides:
    """Each is None where the settings do not ask for it, and then takes no time. extent: of the scene, world units."""

    def __init__(self, backend: Backend, cameras: CameraTable, config: TrainConfig, extent: float) -> None:
        self.backend = backend
        rates = PoseRates(config.lr_poses, config.lr_poses_final, config.steps, extent)
        self.poses = PoseRefinement(backend, cameras, rates) if config.pose_opt else None

    def backward(self, splats: Splats, state: StepState, rasterizer: Rasterizer) -> None:
        """Queue what needs the splats as they were rendered, between the two backward passes of the rasterizer."""
        if self.poses:
            self.poses.backward(splats, state, rasterizer.antialias, rasterizer.projection)

    def step(self, state: StepState) -> None:
        """Queue the steps of their optimisers."""
        if self.poses:
            self.poses.step(state)

    def arrays(self) -> dict[str, Any]:
        """All that is trained here, by name: float32 arrays that `load` takes back."""
        return {"poses": self.poses.offsets} if self.poses else {}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on with what `arrays` gave."""
        for name, array in self.arrays().items():
            array[...] = self.backend.upload(arrays[name])
        if self.poses:
            self.poses.place()

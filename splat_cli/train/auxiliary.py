"""What a run trains besides the splats: poses, exposures, the colour behind it all, a colour field."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.field.color_field import ColorField
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.from_config import make_coloring
from splat_cli.gaussians.splats import Splats
from splat_cli.optim.background import LearnedBackground
from splat_cli.optim.depth import DepthSupervision
from splat_cli.optim.exposure import ExposureLoss
from splat_cli.optim.loss import PhotometricLoss
from splat_cli.optim.per_view import Decay
from splat_cli.optim.poses import PoseRefinement, pose_decay
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.observations import observe
from splat_cli.train.schedule import background_of


class AuxiliaryModels:
    """Each is None where the settings do not ask for it, and then takes no time.

    schedule: the run's, on the device (train/schedule.py). extent: of the scene, world units. splats: as they start.
    points: of the scene, [P, 3], for the supervision of depth. loss: of the settings, with exposure or without.
    """

    def __init__(
        self,
        backend: Backend,
        cameras: CameraTable,
        config: TrainConfig,
        schedule: Any,
        extent: float,
        splats: Splats,
        points: np.ndarray | None = None,
    ) -> None:
        self.backend = backend
        self.poses: PoseRefinement | None = None
        self.exposure: ExposureLoss | None = None
        self.background: LearnedBackground | None = None
        self.depth: DepthSupervision | None = None
        self.coloring: FieldColoring | None = None
        if config.color == "field":
            self.coloring = make_coloring(splats, len(cameras.views), config)
        if config.pose_opt:
            decay = pose_decay(config.pose_travel, len(cameras.views), config.steps)
            self.poses = PoseRefinement(backend, cameras, decay, extent)
        if config.exposure:
            decay = Decay(config.lr_exposure, config.lr_exposure_final, config.steps)
            self.exposure = ExposureLoss(backend, cameras, config.ssim_weight, decay, config.exposure_reg)
        if config.background == "learned":
            decay = Decay(config.lr_background, config.lr_background / 10, config.steps)
            self.background = LearnedBackground(backend, cameras, background_of(schedule), decay)
        if config.depth_weight > 0 and points is not None:
            weight = Decay(config.depth_weight, config.depth_weight / 100, config.steps)
            self.depth = DepthSupervision(backend, observe(cameras.views, points), weight)
        self.loss = self.exposure or PhotometricLoss(backend, cameras, config.ssim_weight)

    @property
    def field(self) -> ColorField | None:
        """What colours the splats, if it is a field."""
        return self.coloring.field if self.coloring else None

    def d_means(self, capacity: int) -> Any | None:
        """Gradients of positions to be added to the rasterizer's, float32 [3, capacity], or None."""
        if self.depth and self.depth.d_means.shape[1] != capacity:
            self.depth.resize(capacity)
        of_colors = self.coloring.d_means if self.coloring else None
        return of_colors if of_colors is not None or self.depth is None else self.depth.d_means

    def backward(self, splats: Splats, state: IterState, rasterizer: Rasterizer) -> None:
        """Queue what needs the splats as they were rendered, between the two backward passes of the rasterizer."""
        if self.poses:
            self.poses.backward(splats, state, rasterizer.antialias, rasterizer.projection)
        if self.background:
            self.background.backward(state, rasterizer.picture)
        if self.depth:
            self.depth.backward(state, rasterizer, self.coloring.d_means if self.coloring else None)

    def step(self, state: IterState) -> None:
        """Queue the steps of their optimisers."""
        for trained in (self.poses, self.exposure, self.background, self.field):
            if trained:
                trained.step(state)

    def arrays(self) -> dict[str, Any]:
        """All that is trained here, by name: float32 arrays that `load` takes back."""
        arrays = {"poses": self.poses.offsets} if self.poses else {}
        arrays |= {"exposures": self.exposure.exposures} if self.exposure else {}
        arrays |= {"background": self.background.trained} if self.background else {}
        return arrays | (self.field.arrays() if self.field else {})

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Go on with what `arrays` gave."""
        for name, array in self.arrays().items():
            array[...] = self.backend.upload(arrays[name])
        if self.field:
            self.field.refresh()
        if self.poses:
            self.poses.place()
        if self.background:
            self.background.show()

    def background_color(self) -> tuple[float, float, float] | None:
        """The learned colour behind the splats, None where none is learned."""
        return self.background.color() if self.background else None

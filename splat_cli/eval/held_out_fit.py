"""Embeddings and poses fitted to the left halves of held-out photographs; the right halves are then evaluated.

Embeddings as in NeRF in the Wild (Martin-Brualla et al. 2021, sec. 4.1), poses as in BARF (Lin et al. 2021, sec. 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import DeviceArray
from splat_cli.field.color_field import EMBEDDING_RATE, RATE, ColorField
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.parameters import Parameters, adam_bias
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.joint.poses import PoseRefinement, pose_decay
from splat_cli.render.blend import blend_backward
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import LEARNING_RATES, IterState
from splat_cli.render.project import RasterizationSettings
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View

STEPS = 100  # steps per photograph, for embeddings
POSE_STEPS = 60  # steps per photograph, for poses
FIT_RATE = 0.05  # learning rate of embeddings


def fit_held_out_embeddings(
    splats: Splats, field: ColorField, photographs: ImageSet, config: TrainConfig, background: Sequence[float]
) -> FieldColoring:
    """The field with fitted embeddings of the photographs, if it has appearance embeddings."""
    start = np.tile(field.embedding_rows().mean(axis=0), (len(photographs.views), 1))
    embeddings = Parameters(splats.backend, start)
    if field.shape.appearance:
        _EmbeddingFit(splats, field, embeddings, half(photographs, right=False), config, background).run()
    return FieldColoring(field, embeddings)


def fit_held_out_poses(
    splats: Splats, photographs: ImageSet, config: TrainConfig, background: Sequence[float], extent: float
) -> list[View]:
    """The photographs' views at the poses that fit their left halves best. extent: size of the scene in world units."""
    return _PoseFit(splats, half(photographs, right=False), config, background, extent).run()


def has_appearances(config: TrainConfig) -> bool:
    """Whether the run trains an appearance embedding per photograph."""
    return config.color == "field" and config.field_appearance > 0


def half(photographs: ImageSet, right: bool) -> ImageSet:
    """The photographs, masked to their left or right halves."""
    pairs = zip(photographs.images, photographs.masks, strict=True)
    return photographs._replace(masks=[half_mask(image, mask, right) for image, mask in pairs])


def half_mask(image: np.ndarray, mask: np.ndarray | None, right: bool) -> np.ndarray:
    """The mask uint8 [H, W] of an image, None for all pixels, without its left or right half."""
    kept = np.full(image.shape[:2], 255, np.uint8) if mask is None else mask.copy()
    middle = image.shape[1] // 2
    kept[:, slice(middle) if right else slice(middle, None)] = 0
    return kept


class _Fit:
    """Adam on values of held-out photographs; the splats are fixed."""

    def __init__(
        self,
        splats: Splats,
        photographs: ImageSet,
        config: TrainConfig,
        background: Sequence[float],
        coloring: FieldColoring | None = None,
    ) -> None:
        self.splats, backend = splats, splats.backend
        photos: list[list[DeviceArray]] = [
            list(map(backend.upload, images)) for images in (photographs.images, photographs.masks)
        ]
        self.cameras = CameraTable(backend, photographs.views, *photos)
        settings = RasterizationSettings(training=True, antialias=config.antialias)
        self.rasterizer = Rasterizer(backend, self.cameras, splats.capacity, settings, coloring=coloring)
        self.loss = PhotometricLoss(backend, self.cameras, config.ssim_weight)
        lr = [FIT_RATE / EMBEDDING_RATE] * len(LEARNING_RATES)
        self.state = IterState(backend, num_splats=splats.num, sh_degree=splats.sh_degree, lr=lr, background=background)

    def step(self, view: int, **fields: Any) -> None:
        """Render one view, differentiate its loss and update its values. fields: of the state."""
        while True:
            self.state.clear_counts()
            self.state.write(view=view, loss_l1=0, loss_l2=0, loss_ssim=0, **fields)
            raster, rendered = self.rasterizer, self.rasterizer.rendered
            raster.forward(self.splats, self.state)
            self.loss.forward(self.state, rendered.image)
            self.loss.backward(self.state, rendered.image, rendered.d_image)
            blend_backward(self.cameras, self.state, raster.projection, raster.tiles, rendered, absgrad=False)
            self.update()
            if not raster.grow_if_overflowed(self.state):  # otherwise nothing was updated
                return

    def update(self) -> None:
        """Queue the update of the state's view."""
        raise NotImplementedError


class _EmbeddingFit(_Fit):
    def __init__(
        self,
        splats: Splats,
        field: ColorField,
        embeddings: Parameters,
        photographs: ImageSet,
        config: TrainConfig,
        background: Sequence[float],
    ) -> None:
        self.field, self.embeddings = field, embeddings
        self.coloring = FieldColoring(field, embeddings, only_embeddings=True)
        super().__init__(splats, photographs, config, background, self.coloring)

    def run(self) -> None:
        """Fit all embeddings, one photograph after the other."""
        for view in range(len(self.cameras.views)):
            for step in range(1, STEPS + 1):
                self.step(view, **adam_bias(step))
        self.field.clear_gradients()

    def update(self) -> None:
        self.coloring.backward(self.splats, self.cameras, self.state, self.rasterizer.projection)
        self.embeddings.adam_flat(self.state, RATE, sparse=True, factor=EMBEDDING_RATE)


class _PoseFit(_Fit):
    def __init__(
        self, splats: Splats, photographs: ImageSet, config: TrainConfig, background: Sequence[float], extent: float
    ) -> None:
        super().__init__(splats, photographs, config, background)
        num = len(self.cameras.views)
        decay = pose_decay(config.pose_travel, num, POSE_STEPS * num)
        self.poses = PoseRefinement(splats.backend, self.cameras, decay, extent)

    def run(self) -> list[View]:
        """The views after all steps; they take turns, as in training."""
        num = len(self.cameras.views)
        for step in range(1, POSE_STEPS * num + 1):
            self.step((step - 1) % num, step=step)
        return self.poses.refined_views()

    def update(self) -> None:
        self.poses.accumulate_gradients(self.splats, self.state, self.rasterizer)
        self.poses.step(self.state)

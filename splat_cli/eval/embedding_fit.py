"""Appearance embeddings of held-out photographs, fitted to left halves, so that right halves can be evaluated.

As in NeRF in the Wild (Martin-Brualla et al. 2021, sec. 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import DeviceArray
from splat_cli.field.color_field import EMBEDDING_RATE, RATE, ColorField
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.parameters import Parameters, adam_bias
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.render.blend import blend_backward
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import LEARNING_RATES, IterState
from splat_cli.render.rasterization_settings import RasterizationSettings
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.images.image_set import ImageSet

STEPS = 100  # steps per photograph
FIT_RATE = 0.05  # learning rate of embeddings


def fit_held_out_embeddings(
    splats: Splats, field: ColorField, photographs: ImageSet, config: TrainConfig, background: Sequence[float]
) -> FieldColoring:
    """The field with fitted embeddings of the photographs, if it has appearance embeddings."""
    start = np.tile(field.embedding_rows().mean(axis=0), (len(photographs.views), 1))
    embeddings = Parameters(splats.backend, start)
    if field.shape.appearance:
        _Fit(splats, field, embeddings, half(photographs, right=False), config, background).run()
    return FieldColoring(field, embeddings)


def has_appearances(config: TrainConfig) -> bool:
    """Whether the run trains an appearance embedding per photograph."""
    return config.color == "field" and config.field_appearance > 0


def half(photographs: ImageSet, right: bool) -> ImageSet:
    """The photographs, masked to their left or right halves."""
    masks: list[np.ndarray | None] = []
    for image, mask in zip(photographs.images, photographs.masks, strict=True):
        kept = np.full(image.shape[:2], 255, np.uint8) if mask is None else mask.copy()
        middle = image.shape[1] // 2
        kept[:, :middle] = kept[:, :middle] * (not right)
        kept[:, middle:] = kept[:, middle:] * right
        masks.append(kept)
    return photographs._replace(masks=masks)


class _Fit:
    """Adam on embeddings, one after the other; splats and field are fixed."""

    def __init__(
        self,
        splats: Splats,
        field: ColorField,
        embeddings: Parameters,
        photographs: ImageSet,
        config: TrainConfig,
        background: Sequence[float],
    ) -> None:
        backend = splats.backend
        self.splats, self.field, self.embeddings = splats, field, embeddings
        photos: list[list[DeviceArray]] = [
            list(map(backend.upload, images)) for images in (photographs.images, photographs.masks)
        ]
        self.cameras = CameraTable(backend, photographs.views, *photos)
        self.coloring = FieldColoring(field, embeddings, only_embeddings=True)
        settings = RasterizationSettings(training=True, antialias=config.antialias)
        self.rasterizer = Rasterizer(backend, self.cameras, splats.capacity, settings, coloring=self.coloring)
        self.loss = PhotometricLoss(backend, self.cameras, config.ssim_weight)
        lr = [FIT_RATE / EMBEDDING_RATE] * len(LEARNING_RATES)
        self.state = IterState(backend, num_splats=splats.num, sh_degree=splats.sh_degree, lr=lr, background=background)

    def run(self) -> None:
        """Fit all embeddings."""
        for view in range(len(self.cameras.views)):
            step = 1
            while step <= STEPS:
                self.state.clear_counts()
                self.state.write(view=view, loss_l1=0, loss_l2=0, loss_ssim=0)
                self.state.write(**adam_bias(step))
                self._launch()
                step += not self.rasterizer.grow_if_overflowed(self.state)
        self.field.clear_gradients()

    def _launch(self) -> None:
        raster, picture = self.rasterizer, self.rasterizer.picture
        raster.forward(self.splats, self.state)
        self.loss.forward(self.state, picture.image)
        self.loss.backward(self.state, picture.image, picture.d_image)
        blend_backward(self.cameras, self.state, raster.projection, raster.tiles, picture, absgrad=False)
        self.coloring.backward(self.splats, self.cameras, self.state, raster.projection)
        self.embeddings.adam_flat(self.state, RATE, sparse=True, factor=EMBEDDING_RATE)

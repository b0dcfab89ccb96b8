"""Refinement of held-out cameras on their photographs; the splats do not change."""

from __future__ import annotations

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.data.training_images import TrainingImages
from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.joint.poses import PoseRefinement, pose_decay
from splat_cli.render.blend import blend_backward
from splat_cli.render.images import background_color
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import RasterizationSettings
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View

VISITS, TRAVEL = 60, 0.5  # steps per held-out camera; maximum total rotation in degrees


def refined_views(
    backend: Backend, splats: Splats, photographs: ImageSet, config: TrainConfig, extent: float
) -> list[View]:
    """Views refined to make renders look like the photographs, by Adam on one view after the other, in rounds."""
    images = TrainingImages(backend, photographs, order=np.zeros(0, np.int32))
    cameras = images.cameras
    num_views = len(cameras.views)
    steps = VISITS * num_views
    settings = RasterizationSettings(training=True, antialias=config.antialias)
    raster = Rasterizer(backend, cameras, splats.capacity, settings)
    loss = PhotometricLoss(backend, cameras, config.ssim_weight)
    poses = PoseRefinement(backend, cameras, pose_decay(TRAVEL, num_views, steps), extent)
    background = background_color(config.background)
    state = IterState(backend, num_splats=splats.num, sh_degree=splats.sh_degree, background=background)
    step = 0
    while step < steps:
        state.clear_counts()
        state.write(step=step + 1, view=step % num_views)
        state.write(loss_l1=0, loss_l2=0, loss_ssim=0)
        raster.forward(splats, state)
        loss.forward(state, raster.rendered.image)
        loss.backward(state, raster.rendered.image, raster.rendered.d_image)
        blend_backward(cameras, state, raster.projection, raster.tiles, raster.rendered, absgrad=False)
        poses.accumulate_gradients(splats, state, raster)
        poses.step(state)
        step += not raster.grow_if_overflowed(state)  # after an overflow, the step did nothing
    return poses.refined_views()

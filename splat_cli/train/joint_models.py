"""List of joint models: parameters optimised jointly with the splats.

To add one: a class with the interface of `joint.joint_model.JointModel`, and a row in MODELS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import DeviceArray, MemoryCost, Unit
from splat_cli.field.color_field import ColorField
from splat_cli.field.coloring import FieldColoring
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.appearance.bilateral_grid import BilateralGridLoss
from splat_cli.joint.appearance.camera_response import CameraResponse
from splat_cli.joint.appearance.exposure import ExposureLoss
from splat_cli.joint.appearance.isp import IspLoss
from splat_cli.joint.background import LearnedBackground
from splat_cli.joint.depth.free_space import FreeSpaceLoss
from splat_cli.joint.depth.supervision import DepthSupervision
from splat_cli.joint.intrinsics import CameraRefinement
from splat_cli.joint.joint_model import JointInputs, JointModel
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.joint.outliers import OutlierMask
from splat_cli.joint.poses import PoseRefinement
from splat_cli.model.model import Model
from splat_cli.render.blend import RenderBuffers
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.view import View

MODELS: tuple[type[JointModel], ...] = (
    FieldColoring,
    PoseRefinement,
    CameraRefinement,
    ExposureLoss,
    BilateralGridLoss,
    IspLoss,
    LearnedBackground,
    DepthSupervision,
    FreeSpaceLoss,
    OutlierMask,
)
"""Joint models, in the order of their backward passes; depth overwrites the rendered image, others read it before."""


class JointModels:
    """The joint models that the settings enable.

    loss: the photometric loss, or the model that replaces it. coloring: colour model of the splats, or None for
    spherical harmonics. poses: the refinement of camera poses, or None. move_splats: some model has gradients of
    positions.
    """

    def __init__(self, inputs: JointInputs) -> None:
        self.backend = inputs.backend
        made = (model.make(inputs) for model in enabled_models(inputs.config))
        self.models = [model for model in made if model is not None]
        roles: dict[str | None, Any] = {model.ROLE: model for model in self.models}
        self.loss: PhotometricLoss = roles.get("loss") or PhotometricLoss(
            inputs.backend, inputs.cameras, inputs.config.ssim_weight
        )
        self.loss.mask = roles.get("mask")
        self.coloring: FieldColoring | None = roles.get("coloring")
        self.poses: PoseRefinement | None = roles.get("poses")
        self.move_splats = any(model.moves_splats(inputs.config) for model in self.models)

    @property
    def field(self) -> ColorField | None:
        """The colour field, if enabled."""
        return self.coloring.field if self.coloring else None

    def resize(self, capacity: int) -> None:
        """Allocate the models' buffers for `capacity` splats."""
        for model in self.models:
            model.resize(capacity)

    def add_image_losses(self, state: IterState, rendered: RenderBuffers) -> None:
        """Queue the models' losses of the rendered image, after the photometric one."""
        for model in self.models:
            model.add_image_loss(state, rendered)

    def add_splat_losses(self, state: IterState, rasterizer: Rasterizer) -> None:
        """Queue the models' losses of projected splats, before the rasterizer's backward pass."""
        for model in self.models:
            model.add_splat_loss(state, rasterizer)

    def accumulate_gradients(self, splats: Splats, state: IterState, rasterizer: Rasterizer) -> None:
        """Queue gradient sums, between the two backward passes of the rasterizer."""
        for model in self.models:
            model.accumulate_gradients(splats, state, rasterizer)

    def step(self, state: IterState) -> None:
        """Queue the steps of the models' optimisers."""
        for model in self.models:
            model.step(state)

    def update(self, splats: Model, state: IterState, views: DeviceArray | None, dense: bool) -> None:
        """Queue the updates of models after the last view of a batch; see JointModel.update."""
        for model in self.models:
            model.update(splats, state, views, dense)

    def set_views(self, views: Sequence[View]) -> None:
        """Adapt the models to a new resolution of the training views."""
        for model in self.models:
            model.set_views(views)

    def constrain(self) -> None:
        """Apply the models' constraints, every `densify_interval` steps."""
        for model in self.models:
            model.constrain()

    def arrays(self) -> dict[str, DeviceArray]:
        """State arrays of all models by name."""
        return {name: array for model in self.models for name, array in model.arrays().items()}

    def load(self, arrays: dict[str, np.ndarray]) -> None:
        """Restore arrays that `arrays` returned. Arrays missing in checkpoints of earlier versions are unchanged."""
        for name, array in self.arrays().items():
            if name in arrays:
                array[...] = self.backend.upload(arrays[name])
        for model in self.models:
            model.refresh()

    def background_color(self) -> tuple[float, float, float] | None:
        """The learned background colour, or None."""
        colors = (model.background_color() for model in self.models)
        return next((color for color in colors if color is not None), None)

    def camera_responses(self) -> dict[int, CameraResponse]:
        """Vignetting and response by camera id; empty without --appearance camera."""
        return {number: found for model in self.models for number, found in model.camera_responses().items()}

    def refined_views(self) -> list[View] | None:
        """The training views at their refined poses, or None without pose refinement."""
        return self.poses.refined_views() if self.poses else None


def enabled_models(config: TrainConfig) -> list[type[JointModel]]:
    """The classes of MODELS that the settings enable."""
    return [model for model in MODELS if model.enabled(config)]


def joint_memory(config: ResolvedConfig, num_views: int) -> MemoryCost:
    """Device memory of the enabled models."""
    return sum((model.memory_cost(config, num_views) for model in enabled_models(config)), MemoryCost())


def joint_models_move(config: ResolvedConfig) -> bool:
    """Whether an enabled model may have gradients of positions."""
    return any(model.moves_splats(config) for model in enabled_models(config))


def joint_kernels(config: TrainConfig) -> list[Unit]:
    """Kernel files and defines of the enabled models."""
    return [unit for model in enabled_models(config) for unit in model.kernels(config)]


def late_arrays(config: TrainConfig) -> set[str]:
    """Names of arrays that checkpoints of earlier versions lack and initial splats determine."""
    return {name for model in enabled_models(config) for name in model.LATE_ARRAYS}

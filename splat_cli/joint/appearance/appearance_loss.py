"""Interface of appearance models: per-photograph colour corrections."""

from __future__ import annotations

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend, DeviceArray
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.joint.joint_model import JointModel
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState


class AppearanceLoss(PhotometricLoss, JointModel):
    """Loss of a rendered picture after a trained colour correction of its view; the splats are saved without it.

    changed: the corrected picture, float32 [3 * max_pixels].
    """

    def __init__(self, backend: Backend, cameras: CameraTable, ssim_weight: float) -> None:
        super().__init__(backend, cameras, ssim_weight)
        self.changed = backend.xp.empty(3 * cameras.max_pixels, "float32")

    @staticmethod
    def cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        """See JointModel.cost: that of `changed`."""
        return MemoryCost(per_pixel=12)

    def apply(self, state: IterState, image: DeviceArray) -> None:
        """Queue the correction of the state's view: from image to `changed`, float32 planes [3, H, W]."""
        raise NotImplementedError

    def apply_backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """Queue its backward pass: d_image from that of `changed` to that of `image`; gradients of the parameters."""
        raise NotImplementedError

    def forward(self, state: IterState, image: DeviceArray, errors: DeviceArray | None = None) -> None:
        """As PhotometricLoss.forward, of the corrected picture."""
        self.apply(state, image)
        super().forward(state, self.changed, errors)

    def backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """As PhotometricLoss.backward; d_image is the gradient of the picture before correction."""
        super().backward(state, self.changed, d_image)
        self.apply_backward(state, image, d_image)

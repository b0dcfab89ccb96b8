"""Interface of appearance models of single photographs."""

from __future__ import annotations

from typing import Any

from splat_cli.device import Backend
from splat_cli.optim.auxiliary_model import AuxiliaryModel
from splat_cli.optim.loss import PhotometricLoss
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState


class AppearanceLoss(PhotometricLoss, AuxiliaryModel):
    """The loss of a picture after the view's own change of colour, which is trained and which the splats go without.

    changed: the picture after the change, float32 [3 * max_pixels].
    """

    def __init__(self, backend: Backend, cameras: CameraTable, ssim_weight: float) -> None:
        super().__init__(backend, cameras, ssim_weight)
        self.changed = backend.xp.empty(3 * cameras.max_pixels, "float32")

    def apply(self, state: IterState, image: Any) -> None:
        """Queue the change of the state's view: from image to `changed`, float32 planes [3, H, W]."""
        raise NotImplementedError

    def apply_backward(self, state: IterState, image: Any, d_image: Any) -> None:
        """Queue its gradients: d_image by the changed picture becomes that by `image`; sums by the parameters."""
        raise NotImplementedError

    def forward(self, state: IterState, image: Any, errors: Any | None = None) -> None:
        """As PhotometricLoss.forward, of the picture as the view's photograph shows it."""
        self.apply(state, image)
        super().forward(state, self.changed, errors)

    def backward(self, state: IterState, image: Any, d_image: Any) -> None:
        """As PhotometricLoss.backward; d_image is by the picture before the change."""
        super().backward(state, self.changed, d_image)
        self.apply_backward(state, image, d_image)

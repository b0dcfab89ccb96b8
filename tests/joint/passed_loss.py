"""Losses of images that are corrected before the comparison, on a device."""

import numpy as np

from splat_cli.device import Backend
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.render.iter_state import IterState


class PassedLoss:
    """Runs a forward and a backward pass of a loss on the second view's image, float [3, H, W], at a step."""

    def __init__(self, backend: Backend, loss: PhotometricLoss, image: np.ndarray, step: int = 6) -> None:
        self.backend, self.loss, self.state = backend, loss, IterState(backend, view=1, step=step)
        on_device = backend.upload(image.astype(np.float32).ravel())
        self.d_image = backend.xp.full_like(on_device, np.nan)
        self.loss.forward(self.state, on_device)
        self.loss.backward(self.state, on_device, self.d_image)

    def download(self, array: object) -> np.ndarray:
        """The array as float64."""
        return self.backend.download(array).astype(np.float64)

"""LPIPS of a render, by the package `lpips` (Zhang et al., "The Unreasonable Effectiveness of Deep Features as a
Perceptual Metric", CVPR 2018): distance of two images in the features of a network; 0: equal images."""

import warnings

import numpy as np

from splat_cli.errors import UsageError, reason_of

_MIN_SIDE = 64
"""Minimum width and height: AlexNet has no features of smaller images."""


class Lpips:
    """A network ("vgg" or "alex") with the weights 0.1 of the package, on a GPU if PyTorch finds one.

    UsageError without the package, and if the weights of the network are neither on this machine nor can be downloaded.
    """

    def __init__(self, network: str) -> None:
        try:
            import lpips
            import torch
        except ImportError:
            raise UsageError("--lpips needs the package lpips, with PyTorch: pip install 'splat-cli[lpips]'") from None
        self.network, self._torch = network, torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the package uses deprecated names of torchvision
                self._model = lpips.LPIPS(net=network, version="0.1", verbose=False).eval().to(self._device)
        except OSError as error:
            raise UsageError(
                f"--lpips {network}: torchvision could not download the network's weights ({reason_of(error)}): "
                "connect this machine to the internet once, or copy torch's folder hub/checkpoints from another one"
            ) from error

    def score(self, render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> float:
        """LPIPS of two images uint8 [H, W, 3]; pixels where `mask`, uint8 [H, W], is 0 count as equal.

        The network gets values from -1 to 1, as the package expects. UsageError below 64x64 pixels.
        """
        height, width = photograph.shape[:2]
        if min(height, width) < _MIN_SIDE:
            raise UsageError(
                f"--lpips: {width}x{height} pixels are too few, expected {_MIN_SIDE} or more: use --downscale less"
            )
        if mask is not None:
            render = np.where(mask[..., None] > 0, render, photograph)
        with self._torch.inference_mode():
            return float(self._model(self._input(render), self._input(photograph)).item())

    def _input(self, image: np.ndarray) -> object:
        """float32 [1, 3, H, W], -1 to 1."""
        planes = np.ascontiguousarray(image.transpose(2, 0, 1)[None], np.float32) / np.float32(127.5) - 1
        return self._torch.from_numpy(planes).to(self._device)

"""PSNR and SSIM of renders, computed on the device: host side of cuda_src/image/psnr_ssim.cu.

SSIM (Wang et al. 2004, Gaussian window of 11 x 11 pixels, sigma 1.5) is computed in float32; differences from float64
(`tests/reference/metrics.py`) are about 1e-6.
"""

from __future__ import annotations

import numpy as np

from splat_cli.device import Backend, DeviceArray, Unit
from splat_cli.device.launch import ceil_div
from splat_cli.eval.metrics import Score, psnr_of

SCORE_KERNELS: list[Unit] = [("image/psnr_ssim", {})]
_WIDTH, _HEIGHT, _WARPS = 32, 32, 8  # size of a block, as in the kernel
_SSIM_ONE = 1 << 30


class PictureScorer:
    """Scores renders one after the other. rounded: the last one in 8 bits, uint8 [H, W, 3] on the device."""

    rounded: DeviceArray

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def score(self, image: DeviceArray, photograph: np.ndarray, mask: np.ndarray | None = None) -> Score:
        """Compare a render with its photograph, uint8 [H, W, 3], where `mask` [H, W], if any, is not 0.

        image: float32 [3, H, W] on the device.
        """
        xp, (_, height, width) = self.backend.xp, image.shape
        self.rounded = xp.empty((height, width, 3), "uint8")
        sums = xp.zeros(2, "uint64")
        grid = ceil_div(width, _WIDTH), ceil_div(height, _HEIGHT), 3
        on_device = None if mask is None else self.backend.upload(mask)
        inputs = width, height, image, self.backend.upload(photograph), on_device
        self.backend.kernel("image/psnr_ssim", "psnr_ssim")(grid, (32, _WARPS), *inputs, self.rounded, sums)
        squares, ssim = self.backend.download(sums).view(np.int64).tolist()
        count = 3 * (height * width if mask is None else int(np.count_nonzero(mask)))
        return Score(psnr_of(squares / (255**2 * count)), ssim / (_SSIM_ONE * count))

"""PSNR and SSIM of two images uint8 [H, W, 3], in float64."""

import numpy as np

from splat_cli.eval.metrics import Score, psnr
from tests.reference.ssim_loss import ssim_and_gradient


def score(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> Score:
    """PSNR and SSIM over pixels where `mask` [H, W], if any, is not 0; other pixels are black in both images."""
    kept = np.ones(render.shape[:2], bool) if mask is None else mask > 0
    black = np.uint8(0)
    x, y = (np.where(kept[..., None], image, black) for image in (render, photograph))
    return Score(psnr(x[kept], y[kept]), ssim(x, y, kept))


def ssim(x: np.ndarray, y: np.ndarray, kept: np.ndarray | None = None) -> float:
    """Mean SSIM over channels and pixels of `kept`, bool [H, W] (default: all)."""
    planes = [np.moveaxis(image / 255, -1, 0) for image in (x, y)]
    weights = np.ones(planes[0].shape) if kept is None else np.broadcast_to(kept, planes[0].shape).astype(float)
    return ssim_and_gradient(*planes, weights / weights.sum())[0]

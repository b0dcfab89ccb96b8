"""PSNR, SSIM and FLIP of an image, the mean of all measures over images, and the evaluation protocol.

FLIP (Andersson et al., "FLIP: A Difference Evaluator for Alternating Images", HPG 2020) is the perceived difference of
two images, from 0 (identical) to 1. NVIDIA's package computes it; it comes with the extra `flip`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, DeviceArray, Unit, ceil_div
from splat_cli.errors import UsageError, reason_of

PIXELS_PER_DEGREE = 67  # pixels per degree of visual angle: the package's default, a monitor at arm's length
_MOVED = (
    "held-out cameras are moved by the similarity that maps the given poses of training cameras to the refined ones; "
)
_HALVES = "only right halves, with the colour field's appearance that fits the left half best; "
_FLIP = f"FLIP at {PIXELS_PER_DEGREE} pixels per degree, mean over pixels, then over images; "
_LPIPS = (
    "LPIPS 0.1 by the package lpips, network {network}, input from -1 to 1, excluded pixels filled from the "
    "photograph, mean over images; "
)
_FREE_SPACE = (
    "`hidden_points`: share of rays to points of the dataset, from at most 8 of these views, on which splats nearer "
    "than 80 % of the point's depth have more than 10 % opacity; `opacity_before_points`: mean of this opacity; "
    "`_train`: of views trained on; "
)
_POSE_FITTED = "`pose_fitted_`: over the right half of an image, at the camera pose that fits the left half best; "
_FITTED = "`fitted_`: over the right half of an image, after the affine change of colour that fits the left half best; "


@dataclass(frozen=True)
class Score:
    """PSNR in dB, SSIM and, if computed, FLIP and LPIPS of an image.

    fitted: score of the right half after colour correction fitted to the left half, with --appearance. pose_fitted: of
    the right half at the pose that fits the left half, with --pose-opt.
    """

    psnr: float
    ssim: float
    flip: float | None = None
    lpips: float | None = None
    fitted_psnr: float | None = None
    fitted_ssim: float | None = None
    pose_fitted_psnr: float | None = None
    pose_fitted_ssim: float | None = None

    def to_dict(self) -> dict[str, float]:
        """The metrics by name."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def protocol(
    config: TrainConfig,
    mean: Score,
    *,
    named: bool = False,
    halves: bool = False,
    free_space: bool = False,
    lpips: str | None = None,
) -> str:
    """Description of the evaluation, for metrics.json. mean: the scores that were computed.

    named: the images are those listed in split.json. halves: appearance embeddings were fitted to left halves.
    free_space: floaters were measured. lpips: network of LPIPS, if computed.
    """
    seen = "held out from training" if config.eval else "NOT held out: training saw them too"
    numbers = f"images sorted by name, numbers 0, {config.test_every}, {2 * config.test_every}, ..."
    measures = "" if mean.flip is None else _FLIP
    measures += "" if lpips is None else _LPIPS.format(network=lpips)
    measures += "" if mean.fitted_psnr is None else _FITTED
    measures += "" if mean.pose_fitted_psnr is None else _POSE_FITTED
    return (
        f"{'images that split.json names' if named else numbers} ({seen}); {_MOVED * config.pose_opt}{_HALVES * halves}"
        "rendered at the training size; render and photograph rounded to 8 bits; "
        "PSNR over all pixels and channels of one image, then the mean over images; "
        "SSIM with an 11x11 Gaussian window of sigma 1.5, zero padding, mean over pixels and channels, then over "
        f"images; {measures}{_FREE_SPACE * free_space}"
        "pixels that a mask excludes, or that undistortion leaves blank, do not count"
    )


def mean_score(scores: Iterable[Score]) -> Score:
    """Mean of each metric that all scores have."""
    rows = [one.to_dict() for one in scores]
    return Score(**{name: float(np.mean([one[name] for one in rows])) for name in set.intersection(*map(set, rows))})


def psnr(x: np.ndarray, y: np.ndarray) -> float:
    """PSNR of two uint8 images over all pixels and channels, in dB; at most 100, for equal images."""
    return psnr_of(float(np.mean((x.astype(np.float64) - y) ** 2)) / 255**2)


def psnr_of(error: float) -> float:
    """PSNR of a mean squared error of values from 0 to 1, in dB; at most 100."""
    return -10 * math.log10(max(error, 1e-10))


def has_flip() -> bool:
    """Whether the package that computes FLIP is installed."""
    return importlib.util.find_spec("flip_evaluator") is not None


def flip(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> float:
    """Mean FLIP of two sRGB images uint8 [H, W, 3], over the pixels where `mask`, uint8 [H, W], is not 0."""
    import flip_evaluator

    reference, test = (np.ascontiguousarray(image, dtype=np.float32) / 255 for image in (photograph, render))
    settings = {"ppd": float(PIXELS_PER_DEGREE)}
    error = flip_evaluator.evaluate(reference, test, "LDR", applyMagma=False, parameters=settings)[0][..., 0]
    return float(np.mean(error if mask is None else error[mask > 0]))


FULL_ERROR = 0.2
"""Mean absolute difference of a pixel's channels, 0 to 1, shown in the last colour; larger ones are clamped."""

COLORS = np.array(
    [(0, 0, 4), (59, 15, 112), (140, 41, 129), (222, 73, 104), (254, 159, 109), (252, 253, 191)], np.float64
)
"""Colour map from 0 to FULL_ERROR: six evenly spaced colours of matplotlib's "magma"."""


def error_map(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Colour map uint8 [H, W, 3] of the difference of two images; zero where `mask`, uint8 [H, W], is 0."""
    error = np.abs(render.astype(np.float32) - photograph).mean(axis=2) / (255 * FULL_ERROR)
    if mask is not None:
        error = np.where(mask > 0, error, 0)
    places = np.linspace(0, 1, len(COLORS))
    table = np.stack([np.interp(np.linspace(0, 1, 256), places, COLORS[:, c]) for c in range(3)], axis=1)
    return np.rint(table).astype(np.uint8)[np.rint(255 * np.minimum(error, 1)).astype(np.uint8)]


def side_by_side(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Photograph, render and their error map, uint8 [H, 3 W + 16, 3]."""
    gap = np.full((len(render), 8, 3), 255, np.uint8)
    return np.concatenate([photograph, gap, render, gap, error_map(render, photograph, mask)], axis=1)


_MIN_SIDE = 64
"""Minimum width and height: AlexNet has no features of smaller images."""


class Lpips:
    """LPIPS (Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric", CVPR 2018).

    It is the distance of two images in the features of a network; 0 for equal images. network: "vgg" or "alex", with
    the weights 0.1 of the package `lpips`, on a GPU if PyTorch finds one.

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


SCORE_KERNELS: list[Unit] = [("image/psnr_ssim", {})]
_WIDTH, _HEIGHT, _WARPS = 32, 32, 8  # size of a block, as in the kernel
_SSIM_ONE = 1 << 30


class PictureScorer:
    """PSNR and SSIM of renders on the device, one after the other: host side of cuda_src/image/psnr_ssim.cu.

    SSIM (Wang et al. 2004, Gaussian window of 11 x 11 pixels, sigma 1.5) is computed in float32; differences from
    float64 (`tests/reference/metrics.py`) are about 1e-6. rounded: the last render in 8 bits, uint8 [H, W, 3] on the
    device.
    """

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

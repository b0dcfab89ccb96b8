"""PSNR, SSIM and FLIP of an image, the mean of all measures over images, and the evaluation protocol.

FLIP (Andersson et al., "FLIP: A Difference Evaluator for Alternating Images", HPG 2020) is the perceived difference of
two images, from 0 (identical) to 1. NVIDIA's package computes it; it comes with the extra `flip`.
"""

import dataclasses
import importlib.util
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

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
    test_every: int,
    held_out: bool,
    *,
    named: bool = False,
    refined: bool = False,
    with_flip: bool = False,
    lpips: str | None = None,
    fitted: bool = False,
    pose_fitted: bool = False,
    halves: bool = False,
    free_space: bool = False,
) -> str:
    """Description of the evaluation, for metrics.json.

    named: the images are those listed in split.json. refined: camera poses were refined. fitted: also scored after
    colour correction. pose_fitted: also scored at fitted poses. halves: appearance embeddings were fitted to left
    halves. free_space: floaters were measured. lpips: network of LPIPS, if computed.
    """
    seen = "held out from training" if held_out else "NOT held out: training saw them too"
    distance = "" if lpips is None else _LPIPS.format(network=lpips)
    every = f"images sorted by name, numbers 0, {test_every}, {2 * test_every}, ..."
    return (
        f"{'images that split.json names' if named else every} ({seen}); {_MOVED * refined}{_HALVES * halves}"
        "rendered at the training size; render and photograph rounded to 8 bits; "
        "PSNR over all pixels and channels of one image, then the mean over images; "
        "SSIM with an 11x11 Gaussian window of sigma 1.5, zero padding, mean over pixels and channels, then over "
        f"images; {_FLIP * with_flip}{distance}{_FITTED * fitted}{_POSE_FITTED * pose_fitted}{_FREE_SPACE * free_space}"
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

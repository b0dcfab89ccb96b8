"""Image metrics: PSNR, SSIM and FLIP, and the evaluation protocol."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from splat_cli.eval.flip import PIXELS_PER_DEGREE, flip

_WINDOW_RADIUS = 5
_WINDOW_SIGMA = 1.5
_C1, _C2 = 0.01**2, 0.03**2
_BLOCK = 32

_MOVED = (
    "cameras that were not trained on are moved by the similarity that takes the others from their given to their "
    "refined poses; "
)
_HALVES = "only right halves, with the colour field's appearance that fits the left half best; "
_FLIP = f"FLIP at {PIXELS_PER_DEGREE} pixels a degree, mean over pixels, then over images; "
_FREE_SPACE = (
    "`hidden_points`: share of the rays to points of the dataset, of 8 of these views at most, on which splats nearer "
    "than 80 % of the point's depth have more than 10 % opacity; `opacity_before_points`: mean of this opacity; "
    "`_train`: of views trained on; "
)
_FITTED = "`fitted_`: over the right half of an image, after the affine change of colour that fits the left half best; "


@dataclass(frozen=True)
class Score:
    """PSNR in dB, SSIM and, if computed, FLIP of an image.

    fitted: score of the right half after colour correction fitted to the left half, with --appearance.
    """

    psnr: float
    ssim: float
    flip: float | None = None
    fitted_psnr: float | None = None
    fitted_ssim: float | None = None

    def to_dict(self) -> dict[str, float]:
        """The metrics by name."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def protocol(
    test_every: int, held_out: bool, *, named: bool = False, refined: bool = False, with_flip: bool = False,
    fitted: bool = False, halves: bool = False, free_space: bool = False,
) -> str:  # fmt: skip
    """Description of the evaluation, for metrics.json.

    named: the images are those listed in split.json. refined: camera poses were refined. fitted: also scored after
    colour correction. halves: appearance embeddings were fitted to left halves. free_space: floaters were measured.
    """
    seen = "held out from training" if held_out else "NOT held out: training saw them too"
    every = f"images sorted by name, numbers 0, {test_every}, {2 * test_every}, ..."
    return (
        f"{'images that split.json names' if named else every} ({seen}); {_MOVED * refined}{_HALVES * halves}"
        "rendered at the training size; render and photograph rounded to 8 bits; "
        "PSNR over all pixels and channels of one image, then the mean over images; "
        "SSIM with an 11x11 Gaussian window of sigma 1.5, zero padding, mean over pixels and channels, then over "
        f"images; {_FLIP * with_flip}{_FITTED * fitted}{_FREE_SPACE * free_space}"
        "pixels that a mask leaves out, or that undistortion leaves blank, count in neither"
    )


def score(render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None = None, with_flip: bool = False) -> Score:
    """Compare two images uint8 [H, W, 3] where `mask` [H, W], if any, is not 0."""
    looks = flip(render, photograph, mask) if with_flip else None
    if mask is None:
        return Score(psnr(render, photograph), ssim(render, photograph), looks)
    kept = mask > 0
    blank = np.uint8(0)
    render, photograph = (np.where(kept[..., None], image, blank) for image in (render, photograph))
    return Score(psnr(render[kept], photograph[kept]), ssim(render, photograph, kept), looks)


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


def ssim(x: np.ndarray, y: np.ndarray, kept: np.ndarray | None = None) -> float:
    """SSIM of two images uint8 [H, W, 3]: mean over channels and pixels of `kept`, bool [H, W] (default: all)."""
    maps = (_ssim_of_channel(x[..., c] / 255.0, y[..., c] / 255.0) for c in range(x.shape[-1]))
    return float(np.mean([np.mean(map if kept is None else map[kept]) for map in maps]))


def _ssim_of_channel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """SSIM map float64 [H, W] of two planes, 0 to 1."""
    mean_x, mean_y = _blur(x), _blur(y)
    luminance = (2 * mean_x * mean_y + _C1) / (mean_x**2 + mean_y**2 + _C1)
    variances = _blur(x * x + y * y) - mean_x**2 - mean_y**2
    structure = (2 * (_blur(x * y) - mean_x * mean_y) + _C2) / (variances + _C2)
    return luminance * structure


def _blur(plane: np.ndarray) -> np.ndarray:
    """Gaussian blur, float64 [H, W]."""
    return _blur_first_axis(_blur_first_axis(plane).T).T


def _blur_first_axis(rows: np.ndarray) -> np.ndarray:
    """1D convolution along the first axis of [N, M], zero padding.

    A banded matrix product per block of rows: an order of magnitude faster than eleven shifted sums.
    """
    radius = _WINDOW_RADIUS
    padded = np.pad(rows, ((radius, radius), (0, 0)))
    distance = np.arange(_BLOCK + 2 * radius)[None, :] - np.arange(_BLOCK)[:, None] - radius
    band = np.where(np.abs(distance) <= radius, np.exp(-(distance**2) / (2 * _WINDOW_SIGMA**2)), 0.0)
    band /= band[0].sum()
    blurred = np.empty_like(rows)
    for start in range(0, len(rows), _BLOCK):
        count = min(_BLOCK, len(rows) - start)
        blurred[start : start + count] = band[:count, : count + 2 * radius] @ padded[start : start + count + 2 * radius]
    return blurred

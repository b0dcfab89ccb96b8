"""Units of depth maps: which reading of their values agrees with the scene's points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

MIN_POINTS = 20  # per view
_ROUNDS = 20  # of reweighted least squares
_SLACK = 1.5, 0.01  # factor and difference by which the error of metric depths may exceed that of fitted ones
_MAX_ERROR = 0.25  # with a larger one, maps are not of this scene
_FINE_ERROR, _MAX_SHARE = 0.02, 0.7  # maximum error relative to that of a constant depth


@dataclass(frozen=True, eq=False)
class Sampled:
    """A view's map where it shows points: depths of the map float64 [P] > 0 in world units, and of the points."""

    values: np.ndarray
    depths: np.ndarray


@dataclass(frozen=True)
class FitErrors:
    """Median error of inverse depths relative to their median.

    metric: of depths in world units. inverse, depth: with scale and shift of each view fitted, to its values as inverse
    depths or as depths. constant: of the median depth of each view, without a map.
    """

    metric: float
    inverse: float
    depth: float
    constant: float

    @property
    def is_metric(self) -> bool:
        """Whether depths in world units agree nearly as well as fitted ones."""
        factor, difference = _SLACK
        return self.metric <= factor * min(self.inverse, self.depth) + difference

    def rejects(self, error: float) -> bool:
        """Whether maps with this error are not of the scene: far off, or hardly better than a constant."""
        return error > _MAX_ERROR or error > max(_FINE_ERROR, _MAX_SHARE * self.constant)


def fit_errors(views: list[Sampled]) -> FitErrors | None:
    """Medians over the views with enough points; None if there is none."""
    errors = [_errors(view) for view in views if len(view.values) >= MIN_POINTS]
    return FitErrors(*np.median(errors, axis=0).tolist()) if errors else None


def robust_line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(scale, shift) of least absolute differences |scale x + shift - y|, by reweighted least squares."""
    weights = np.ones(len(x))
    scale, shift = 0.0, float(np.median(y))
    for _ in range(_ROUNDS):
        mean_x, mean_y = np.average(x, weights=weights), np.average(y, weights=weights)
        variance = np.average((x - mean_x) ** 2, weights=weights)
        if variance <= 1e-12 * mean_x**2:
            return 0.0, float(np.median(y))
        scale = float(np.average((x - mean_x) * (y - mean_y), weights=weights) / variance)
        shift = float(mean_y - scale * mean_x)
        residuals = np.abs(scale * x + shift - y)
        weights = 1 / np.maximum(residuals, max(0.01 * float(np.median(residuals)), 1e-12 * float(np.abs(y).max())))
    return scale, shift


def _errors(view: Sampled) -> tuple[float, float, float, float]:
    values, inverse = view.values, 1 / view.depths

    def error(found: Any) -> float:
        return float(np.median(np.abs(found - inverse)) / np.median(inverse))

    scale, shift = robust_line(values, inverse)
    as_inverse = error(scale * values + shift) if scale > 0 else np.inf
    scale, shift = robust_line(values, view.depths)
    as_depth = error(1 / np.maximum(scale * values + shift, 1e-3 * np.median(view.depths))) if scale > 0 else np.inf
    return error(1 / values), as_inverse, as_depth, error(np.median(inverse))

"""Units of depth maps: depths in world units, or depths or inverse depths up to scale and shift."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from splat_cli.scene.depth_maps.depth_map import DepthMap
from splat_cli.scene.depth_maps.fit import MIN_POINTS, FitErrors, Sampled, robust_line
from splat_cli.scene.view import DepthFile


class Units(Enum):
    """Units of the values of a set of depth maps; values of members are descriptions."""

    METRIC = "depths in world units"
    SCALED = "inverse depths with the scales of depth_params.json"
    RELATIVE = "depths up to scale and shift"
    RELATIVE_INVERSE = "inverse depths up to scale and shift"

    @property
    def is_relative(self) -> bool:
        return self in (Units.RELATIVE, Units.RELATIVE_INVERSE)


def units_of(files: Sequence[DepthFile], found: FitErrors | None, wanted: str) -> Units:
    """By --depth-maps (`wanted`) and, with "auto", the errors relative to the scene's points; without points, metric.

    Relative maps are inverse depths, as monocular networks make them, unless points or the dataset's format say
    otherwise.
    """
    if all(file.inverse is not None for file in files):
        return Units.SCALED
    if wanted == "metric" or (wanted == "auto" and (found is None or found.is_metric)):
        return Units.METRIC
    are_depths = all(file.is_metric for file in files) if found is None else found.depth < found.inverse
    return Units.RELATIVE if are_depths else Units.RELATIVE_INVERSE


def error_of(units: Units, found: FitErrors | None) -> float | None:
    """Median error of inverse depths relative to the points', with these units; None if it is not known."""
    if found is None or units is Units.SCALED:
        return None
    return {Units.METRIC: found.metric, Units.RELATIVE: found.depth, Units.RELATIVE_INVERSE: found.inverse}[units]


def depth_map_in(units: Units, values: np.ndarray, confidence: np.ndarray | None, seen: Sampled) -> DepthMap | None:
    """The map of values float32 [h, w], NaN where unknown.

    Scale and shift of relative maps are fitted to the points where the view shows them, `seen`; without enough of these
    they stay unknown.
    """
    relative = units.is_relative and len(seen.values) < MIN_POINTS
    with np.errstate(all="ignore"):  # what becomes infinite or no number is left out
        if units is Units.METRIC:
            inverse = 1 / values
        elif units is Units.RELATIVE:
            scale, shift = (1.0, 0.0) if relative else robust_line(seen.values, seen.depths)
            inverse = 1 / (scale * values + shift)
        elif units is Units.RELATIVE_INVERSE and not relative:
            scale, shift = robust_line(seen.values, 1 / seen.depths)
            inverse = scale * values + shift
        else:
            inverse = values
    return DepthMap.of(inverse, confidence, relative)

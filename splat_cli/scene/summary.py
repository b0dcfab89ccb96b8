"""Summary of a scene."""

from collections import Counter

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import first_of

_SHOWN = 10


def summarize_scene(scene: Scene) -> dict[str, str]:
    """Label -> text: photographs, cameras, points, extents, and what was skipped."""
    lenses = Counter((view.width, view.height, view.fx, view.fy, view.cx, view.cy) for view in scene.views)
    rows = {"found": scene.found, "photographs": f"{len(scene.views):,}", "cameras": f"{len(lenses):,}"}
    for number, (lens, count) in enumerate(lenses.most_common(_SHOWN), 1):
        width, height, fx, fy, cx, cy = lens
        rows[f"camera {number}"] = (
            f"{width:.0f}x{height:.0f}, focal length {fx:.1f} {fy:.1f}, centre {cx:.1f} {cy:.1f} pixels; "
            f"{count} photographs"
        )
    bent = sum(view.lens is not None for view in scene.views)
    if bent:
        rows["undistorted"] = f"{bent:,} photographs, as they are loaded"
    kept = sum(view.distortion is not None for view in scene.views)
    if kept:
        rows["with their lens"] = f"{kept:,} photographs are not undistorted"
    rows["points"] = f"{len(scene.points):,}"
    if len(scene.points):
        sides = np.ptp(np.percentile(scene.points, (1, 99), axis=0), axis=0)
        rows["point extent"] = " x ".join(f"{side:.4g}" for side in sides) + " world units (98 %, each axis)"
    rows["scene extent"] = f"{scene_extent(scene.views):.4g} world units (1.1 x camera radius)"
    if scene.dropped_points:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in scene.dropped_points.items())
        rows["points left out"] = reasons
    masked = sum(view.mask is not None for view in scene.views)
    if masked:
        rows["masks"] = f"{masked:,} photographs have one"
    if scene.missing_depths:
        rows["missing depth maps"] = _listed(scene.missing_depths)
    if scene.skipped:
        rows["photographs left out"] = _listed(scene.skipped)
    return rows


def _listed(lines: list[str]) -> str:
    """The number of lines and the first few."""
    return f"{len(lines):,}: {first_of(lines, _SHOWN)}"

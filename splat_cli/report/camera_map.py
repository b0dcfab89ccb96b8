"""Map of the scene from above: splats and cameras."""

from collections.abc import Sequence

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.attributes import opacities
from splat_cli.gaussians.init import SH_C0
from splat_cli.report.markup import Markup, tag
from splat_cli.report.numbers import ticks
from splat_cli.report.pictures import png
from splat_cli.scene.view import View

_SIDE = 480  # user units of the SVG
_MAP_SIDES = (120, 640)  # px, range of the raster's side; about one pixel per splat
_SPLAT_OPACITY = 0.35  # opacity of a splat
_CORE = (10, 90)  # percentiles of the splats that must be inside


def camera_map(splats: SplatArrays, views: Sequence[View], held_out: frozenset[str]) -> Markup:
    """A square picture along `up`, with all cameras; splats above the cameras are omitted."""
    centers = np.array([view.center for view in views])
    axes = _ground_axes(views, centers)
    cameras, directions = centers @ axes.T, np.array([view.w2c[2, :3] for view in views]) @ axes.T
    points = splats.means.astype(np.float64) @ axes.T
    ceiling = cameras[:, 2].max() + 0.2 * np.ptp(cameras, axis=0).max()
    below = points[:, 2] <= ceiling
    low, width = _window(cameras[:, :2], points[below, :2])
    density = _density(splats, below, (points[:, :2] - low) / width)
    marks = [
        _arrowhead((place - low) / width * _SIDE, direction, view.name, view.name in held_out)
        for view, place, direction in zip(views, cameras[:, :2], directions[:, :2], strict=True)
    ]
    picture = tag("image", href=png(density), width=_SIDE, height=_SIDE) if len(density) else None
    label = f"{len(views)} cameras and the splats from above"
    return tag("svg", picture, *marks, _scale_bar(width), viewBox=f"0 0 {_SIDE} {_SIDE}", role="img", aria_label=label)


def _ground_axes(views: Sequence[View], centers: np.ndarray) -> np.ndarray:
    """Axes [3, 3] of the picture: right, down and up, from the mean of the cameras."""
    spread = np.linalg.svd(centers - centers.mean(axis=0), full_matrices=True)[2]
    up = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    up = spread[2] if np.linalg.norm(up) < 0.3 else up / np.linalg.norm(up)
    right = spread[0] - (spread[0] @ up) * up
    if np.linalg.norm(right) < 1e-6:  # cameras are vertically aligned
        right = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(right, up), up])


def _window(cameras: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, float]:
    """(corner, side) of the square that contains all cameras and most points."""
    core = np.percentile(points, _CORE, axis=0) if len(points) else cameras
    corners = np.concatenate([cameras, core])
    low, high = corners.min(axis=0), corners.max(axis=0)
    width = 1.12 * max(float((high - low).max()), 1e-6)
    return (low + high - width) / 2, width


def _density(splats: SplatArrays, chosen: np.ndarray, places: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 4]: mean colour of the splats in each pixel; opacity grows with their number."""
    inside = chosen & ((places >= 0) & (places < 1)).all(axis=1)
    side = int(np.clip(np.sqrt(inside.sum()), *_MAP_SIDES))
    column, row = (places[inside] * side).astype(int).T
    pixel, weight = row * side + column, opacities(splats)[inside]
    total = np.bincount(pixel, weight, side**2)
    colors = np.clip(0.5 + SH_C0 * splats.sh0[inside].astype(np.float64), 0, 1)
    sums = np.stack([np.bincount(pixel, weight * colors[:, c], side**2) for c in range(3)], axis=1)
    alpha = 1 - (1 - _SPLAT_OPACITY) ** total
    rgba = np.concatenate([sums / np.maximum(total, 1e-9)[:, None], alpha[:, None]], axis=1)
    return np.rint(255 * rgba).astype(np.uint8).reshape(side, side, 4)


def _arrowhead(place: np.ndarray, direction: np.ndarray, name: str, held_out: bool) -> Markup:
    """A triangle in the viewing direction, or a dot if that is vertical."""
    title = tag("title", f"{name} (held out)" if held_out else name)
    look = "held-out" if held_out else "trained"
    length = float(np.linalg.norm(direction))
    if length < 0.1:
        return tag("circle", title, class_=look, cx=round(place[0], 1), cy=round(place[1], 1), r=4)
    forward = direction / length
    side = np.array([-forward[1], forward[0]])
    corners = [place + 9 * forward, place - 4 * forward + 5 * side, place - 4 * forward - 5 * side]
    return tag("polygon", title, class_=look, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in corners))


def _scale_bar(width: float) -> Markup:
    """A scale bar of a round length, about a fifth of the picture."""
    length = ticks(0, width, 5)[1]
    pixels, y = length / width * _SIDE, _SIDE - 12
    bar = tag("line", x1=12, x2=round(12 + pixels, 1), y1=y, y2=y)
    return tag("g", bar, tag("text", f"{length:g} world units", x=12, y=y - 6), class_="scale")

"""Renders with maps of alpha, depth and normals."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import DeviceArray
from splat_cli.gaussians.arrays import rotations
from splat_cli.gaussians.splats import LOG_SCALES, MEANS, QUATS, Splats
from splat_cli.render.view import ViewRenderer

MIN_ALPHA = 1 / 255
"""Pixels below this opacity have no depth and no normal."""


@dataclass(frozen=True)
class RenderedMaps:
    """Rendered maps of a view, float32; None for maps that were not requested."""

    color: np.ndarray
    """[H, W, 3] over the background, not clamped."""
    alpha: np.ndarray | None = None
    """[H, W] opacity, 0 to 1."""
    depth: np.ndarray | None = None
    """[H, W] world units along the optical axis: mean over splats by blending weight; 0: no depth."""
    normal: np.ndarray | None = None
    """[H, W, 3] unit vectors in camera coordinates (x right, y down, z forward), facing the camera; 0: no normal."""

    def maps(self) -> dict[str, np.ndarray]:
        """All rendered maps by name."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def render_maps(
    renderer: ViewRenderer,
    index: int,
    background: Sequence[float] = (0.0, 0.0, 0.0),
    maps: Collection[str] = (),
    distances: bool = False,
) -> RenderedMaps:
    """Render view `index` with the requested maps: "alpha", "depth", "normal".

    distances: depths are distances from the camera centre instead of z, as always in views that keep their lens.
    """
    color = renderer.render(index, background)
    if not maps:
        return RenderedMaps(color)
    alpha = renderer.alpha(index)
    seen = alpha >= MIN_ALPHA
    depth = normal = None
    view = renderer.cameras.views[index]
    w2c, distances = view.w2c, distances or view.distortion is not None
    if "depth" in maps:
        positions = in_camera(renderer.splats, w2c)
        depths = renderer.backend.xp.linalg.norm(positions, axis=1, keepdims=True) if distances else positions[:, 2:]
        total = renderer.backend.download(renderer.blended(index, depths)[0])
        depth = np.where(seen, total / np.maximum(alpha, MIN_ALPHA), 0)
    if "normal" in maps:
        blended = renderer.backend.download(renderer.blended(index, splat_normals(renderer.splats, w2c)))
        total = np.ascontiguousarray(blended.transpose(1, 2, 0))
        length = np.linalg.norm(total, axis=-1, keepdims=True)
        normal = np.where(seen[..., None], total / np.maximum(length, 1e-12), 0)
    return RenderedMaps(color, alpha if "alpha" in maps else None, depth, normal)


def splat_normals(splats: Splats, w2c: np.ndarray) -> DeviceArray:
    """Shortest axis of each splat, facing the camera, in camera coordinates: float32 [num, 3], unit length.

    Trained splats are flat and parallel to surfaces (SuGaR, Guedon and Lepetit 2024, sec. 4.1).
    """
    xp, params = splats.backend.xp, splats.params[:, : splats.num]
    shortest = xp.argmin(params[LOG_SCALES], axis=0)
    axes = rotations(xp, params[QUATS])[xp.arange(splats.num), :, shortest] @ _rotation(xp, w2c).T
    away = (in_camera(splats, w2c) * axes).sum(axis=1, keepdims=True) > 0
    return xp.where(away, -axes, axes)


def in_camera(splats: Splats, w2c: np.ndarray) -> DeviceArray:
    """Positions float32 [num, 3] in the camera's frame."""
    xp = splats.backend.xp
    return splats.params[MEANS, : splats.num].T @ _rotation(xp, w2c).T + xp.asarray(w2c[:3, 3].astype(np.float32))


def _rotation(xp: Any, w2c: np.ndarray) -> DeviceArray:
    return xp.asarray(w2c[:3, :3].astype(np.float32))

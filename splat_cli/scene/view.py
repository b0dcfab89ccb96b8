"""Views of a scene, and the scene with its points."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from splat_cli.errors import UsageError
from splat_cli.scene.lens import MAX_SIDE, Lens, RollingShutter
from splat_cli.scene.lens.camera import FieldOfView, field_of_view
from splat_cli.scene.lens.distortion import Distortion
from splat_cli.scene.quaternion import camera_center, is_rotation

T = TypeVar("T")

MAX_NUMBER = 1e18
"""Maximum magnitude of a camera's numbers: the square is finite in float32."""
_SHUTTER_ITERATIONS = 8
"""Iterations for the time at which a point is seen; each multiplies its error by the share of the picture it moves."""
_MARGIN = 0.15  # relative to an image's size, as in cuda_src/raster/projection.cuh


@dataclass(frozen=True)
class DepthFile:
    """File of a depth map (z along the camera's axis), and file of its confidences (0 to 2 or 0 to 255), if any.

    unit: world units per level of integers; None: the value of --depth-unit. is_metric: the dataset's format says that
    depths are in world units. inverse: (scale, offset) such that 1/z is scale * integer / 65536 + offset, as in
    depth_params.json of the INRIA code; None: depths.
    """

    path: Path
    confidence: Path | None = None
    unit: float | None = None
    is_metric: bool = False
    inverse: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class View:
    """A photograph and its pinhole camera, at training size.

    `fx fy cx cy`: pixels, with the origin at the image's top-left corner: the centre of the first pixel is (0.5, 0.5).
    `w2c`: float64 [4, 4], world to camera; camera axes: x right, y down, z forward. `lens`: of the photograph before
    undistortion, None without distortion. `mask`: image whose dark pixels are ignored. `camera_id`: equal for
    photographs of one camera and lens setting. `radial`: k1 and k2 of the distortion that the image still has, as
    --refine-distortion finds it: the point at slopes s = (x / z, y / z) is seen at s (1 + k1 |s|^2 + k2 |s|^4).
    `distortion`: of the image itself, if it keeps its lens (--lens keep, spheres); `fx fy cx cy` are then the lens'
    matrix, and depths are distances from the camera. `rolling_shutter`: motion of the camera while the rows were taken,
    only with a distortion (perhaps of all zeros). `depth`: file of its depth map.
    """

    name: str
    path: Path | None
    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    w2c: np.ndarray
    lens: Lens | None = None
    mask: Path | None = None
    camera_id: int = 0
    radial: tuple[float, float] = (0.0, 0.0)
    depth: DepthFile | None = None
    distortion: Distortion | None = None
    rolling_shutter: RollingShutter | None = None

    @property
    def center(self) -> np.ndarray:
        """See `camera_center`."""
        return camera_center(self.w2c)

    @property
    def files(self) -> list[Path]:
        """Photograph, mask, depth map and its confidences, as far as there are any."""
        depth = [self.depth.path, self.depth.confidence] if self.depth else []
        return [path for path in (self.path, self.mask, *depth) if path is not None]

    @property
    def is_in_range(self) -> bool:
        """Whether all numbers of the camera are finite and below MAX_NUMBER, and focal lengths above its inverse."""
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = np.abs([self.fx, self.fy, self.cx, self.cy, *self.center, *self.radial])
        return bool(
            np.isfinite(numbers).all() and numbers.max() < MAX_NUMBER and min(self.fx, self.fy) > 1 / MAX_NUMBER
        )

    def check(self) -> None:
        """UsageError unless a picture of this camera can be rendered."""
        if not all(isinstance(side, int | np.integer) and 1 <= side <= MAX_SIDE for side in (self.width, self.height)):
            raise UsageError(
                f"view {self.name!r} is {self.width}x{self.height}: expected whole numbers of pixels, 1 to {MAX_SIDE}"
            )
        if not isinstance(self.w2c, np.ndarray) or self.w2c.shape not in ((4, 4), (3, 4)):
            raise UsageError(f"w2c of view {self.name!r}: expected a NumPy array [4, 4], world to camera")
        if not self.is_in_range or not np.isfinite(self.w2c).all():
            raise UsageError(f"view {self.name!r} has invalid parameters: expected finite numbers below {MAX_NUMBER:g}")
        if not is_rotation(self.w2c[:3, :3]) or not np.allclose(self.w2c[3:], [0, 0, 0, 1]):
            raise UsageError(
                f"w2c of view {self.name!r} is not a rotation and a shift: expected R in [R t; 0 0 0 1] without scale, "
                "shear or mirror"
            )

    def checked(self) -> View:
        """The view with Python numbers and w2c float64 [4, 4]. UsageError as in `check`."""
        self.check()
        w2c = np.eye(4)
        w2c[:3] = self.w2c[:3]
        return dataclasses.replace(
            self,
            path=None if self.path is None else Path(self.path),
            width=int(self.width),
            height=int(self.height),
            fx=float(self.fx),
            fy=float(self.fy),
            cx=float(self.cx),
            cy=float(self.cy),
            w2c=w2c,
        )

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pixels [P, 2] and depths [P] of points [P, 3], and whether the image shows them."""
        placed = points @ self.w2c[:3, :3].T + self.w2c[:3, 3]
        if self.distortion is not None:
            return self._project_through_lens(placed)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # beside the camera
            slopes = placed[:, :2] / placed[:, 2:]
            if self.radial != (0.0, 0.0):
                slopes = slopes * self._distortion(slopes)
            pixels = slopes * [self.fx, self.fy] + [self.cx, self.cy]
        (x, y), z = pixels.T, placed[:, 2]
        return pixels, z, (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height) & (z > 0)

    def _project_through_lens(self, placed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`project` for a view with a distortion, from points in camera coordinates; depths are distances."""
        assert self.distortion is not None
        distances = np.linalg.norm(placed, axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            pixels = self._places(placed)
            if self.rolling_shutter is not None:
                for _ in range(_SHUTTER_ITERATIONS):
                    times = self.rolling_shutter.times(pixels[:, 1], self.height)
                    pixels = self._places(self.rolling_shutter.moved(placed, times))
        (x, y), angles = pixels.T, np.arctan2(np.linalg.norm(placed[:, :2], axis=1), placed[:, 2])
        inside = (x >= 0) & (x < self.width) & (y >= 0) & (y < self.height) & (distances > 0)
        return pixels, distances, inside & (angles <= self.field_of_view.angle)

    def _places(self, placed: np.ndarray) -> np.ndarray:
        """Pixels [P, 2] of points [P, 3] in camera coordinates, with a distortion."""
        assert self.distortion is not None
        pixels: np.ndarray = self.distortion.project(placed) * [self.fx, self.fy] + [self.cx, self.cy]
        return pixels

    @property
    def field_of_view(self) -> FieldOfView:
        """The angles at which the lens sees, with a margin around the image."""
        return field_of_view(self.distortion, (self.fx, self.fy), (self.cx, self.cy), (self.width, self.height))

    def rays(self) -> np.ndarray:
        """Unit rays float64 [H, W, 3] of the pixels' centres, in camera coordinates; NaN if the lens sees nothing.

        With a rolling shutter, each is in coordinates of the camera at the time of its row.
        """
        columns, rows = np.meshgrid(np.arange(self.width) + 0.5, np.arange(self.height) + 0.5)
        points = np.stack([(columns - self.cx) / self.fx, (rows - self.cy) / self.fy], axis=-1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rays = np.insert(points, 2, 1.0, axis=-1) if self.distortion is None else self.distortion.unproject(points)
        if self.distortion is None:
            return rays / np.linalg.norm(rays, axis=-1, keepdims=True)
        angles = np.arctan2(np.linalg.norm(rays[..., :2], axis=-1), rays[..., 2])
        return np.where((angles <= self.field_of_view.angle)[..., None], rays, np.nan)

    @property
    def pinhole(self) -> View:
        """The same camera without distortion, as viewers show it; at most 90 degrees wide if it keeps a lens."""
        if self.distortion is None:
            return dataclasses.replace(self, radial=(0.0, 0.0))
        zoom = max(1.0, self.width / (2 * self.fx))
        return dataclasses.replace(
            self, fx=zoom * self.fx, fy=zoom * self.fx, distortion=None, radial=(0.0, 0.0), rolling_shutter=None
        )

    @property
    def slope_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Minimum and maximum of slopes (x / z, y / z), float64 [2], of image and margin; kernels clamp to them."""
        focal, center = np.array([self.fx, self.fy]), np.array([self.cx, self.cy])
        size = np.array([self.width, self.height])
        return -(center + _MARGIN * size) / focal, ((1 + _MARGIN) * size - center) / focal

    def _distortion(self, slopes: np.ndarray) -> np.ndarray:
        """Factor [P, 1] of slopes [P, 2]; outside the image's margin, the value at its edge, as in the rasterizer."""
        square = (np.clip(slopes, *self.slope_limits) ** 2).sum(axis=1, keepdims=True)
        return 1 + square * (self.radial[0] + square * self.radial[1])

    def resized(self, width: int, height: int) -> View:
        """The same camera with its image resampled to another size."""
        x, y = width / self.width, height / self.height
        return dataclasses.replace(
            self, width=width, height=height, fx=self.fx * x, fy=self.fy * y, cx=self.cx * x, cy=self.cy * y
        )

    def downscaled(self, factor: int) -> View:
        """The same camera, each pixel covering `factor` x `factor` pixels; incomplete columns and rows are cropped."""
        return dataclasses.replace(
            self,
            width=self.width // factor,
            height=self.height // factor,
            fx=self.fx / factor,
            fy=self.fy / factor,
            cx=self.cx / factor,
            cy=self.cy / factor,
        )


@dataclass
class Scene:
    """Views sorted by name, points float32 [P, 3] in world units, their colours uint8 [P, 3].

    `skipped`: photographs as "name: reason"; `dropped_points`: number of points by reason; `found`: description of what
    was read; `test_names`: photographs that the dataset holds out, if any; `origin`: float64 [3], offset that
    was subtracted from geographic coordinates; `missing_depths`: depth maps that the dataset names and that
    are missing, as "name: reason".
    """

    root: Path
    views: list[View]
    points: np.ndarray
    colors: np.ndarray
    skipped: list[str] = field(default_factory=list)
    dropped_points: dict[str, int] = field(default_factory=dict)
    found: str = ""
    test_names: frozenset[str] | None = None
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))
    missing_depths: list[str] = field(default_factory=list)

    def checked(self) -> Scene:
        """A scene made by a program, with checked views and finite points float32. Raises UsageError."""
        if not self.views:
            raise UsageError("the scene has no views: give some, or read it with read_scene")
        points, colors = (np.asarray(array) for array in (self.points, self.colors))
        shape = (points.shape or (0,))[:1] + (3,)
        if points.shape != shape or colors.shape != shape or colors.dtype != np.uint8 or points.dtype.kind not in "fiu":
            found = f"points are {points.dtype} {list(points.shape)} and colors {colors.dtype} {list(colors.shape)}"
            raise UsageError(f"{found}: expected numbers [P, 3] and uint8 [P, 3]")
        with np.errstate(over="ignore"):  # becomes infinite
            points = points.astype(np.float32, copy=False)
        finite = np.isfinite(points).all(axis=1)
        views = [view.checked() for view in self.views]
        return dataclasses.replace(self, views=views, points=points[finite], colors=colors[finite])


def evenly_spread(views: Sequence[T], num: int) -> list[T]:
    """At most `num` evenly spread items of a sequence, with the first and the last."""
    return [views[i] for i in np.linspace(0, len(views) - 1, min(len(views), num)).astype(int)]


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key in which a2 comes before a10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]

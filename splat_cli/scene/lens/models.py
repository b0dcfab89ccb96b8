"""Conversion of COLMAP's camera models and their parameters to lenses."""

import math

from splat_cli.errors import SceneError
from splat_cli.scene.colmap.model import MODEL_IDS, SPHERE, Camera
from splat_cli.scene.lens.camera import IMPOSSIBLE, Lens
from splat_cli.scene.lens.distortion import Distortion, Division, Equirectangular, Eucm, Fov, Polynomial

_ONE_FOCAL_LENGTH = (
    "SIMPLE_PINHOLE",
    "SIMPLE_RADIAL",
    "RADIAL",
    "SIMPLE_RADIAL_FISHEYE",
    "RADIAL_FISHEYE",
    "SIMPLE_DIVISION",
    "SIMPLE_FISHEYE",
)


def lens_of(camera: Camera) -> Lens:
    """Lens of a camera. SceneError if its model is unsupported or its parameters are invalid."""
    if camera.model == SPHERE:
        return spherical_lens(camera.width, camera.height)
    if camera.model not in MODEL_IDS:
        raise SceneError(
            f"camera {camera.id} has the unknown camera model {ascii(camera.model[:40])[1:-1]}: undistort the images "
            "to PINHOLE cameras"
        )
    f, params = camera.params[0], camera.params[1:]
    fx, fy, cx, cy, *extra = (f, f, *params) if camera.model in _ONE_FOCAL_LENGTH else camera.params
    if not (fx > 0 and fy > 0):
        raise SceneError(
            f"camera {camera.id} has a focal length {IMPOSSIBLE} ({min(fx, fy):g}): estimate the poses again, with "
            "another camera model"
        )
    return Lens(camera.width, camera.height, fx, fy, cx, cy, _distortion(camera, tuple(extra)))


def spherical_lens(width: int, height: int) -> Lens:
    """Lens of equirectangular photographs, 360 by 180 degrees."""
    focal = width / (2 * math.pi), height / math.pi
    return Lens(width, height, *focal, width / 2, height / 2, Equirectangular())


def _distortion(camera: Camera, k: tuple[float, ...]) -> Distortion | None:
    match camera.model:
        case "SIMPLE_PINHOLE" | "PINHOLE":
            return None
        case "SIMPLE_RADIAL" | "RADIAL":
            return Polynomial(radial=k)
        case "SIMPLE_FISHEYE" | "FISHEYE" | "SIMPLE_RADIAL_FISHEYE" | "RADIAL_FISHEYE" | "OPENCV_FISHEYE":
            return Polynomial(radial=k, fisheye=True)
        case "OPENCV" | "FULL_OPENCV":
            return Polynomial(radial=(*k[:2], *k[4:5]), rational=k[5:], tangential=(k[2], k[3]))
        case "THIN_PRISM_FISHEYE":
            prism = (k[6], 0.0, k[7], 0.0)
            return Polynomial(radial=k[:2] + k[4:6], tangential=(k[2], k[3]), prism=prism, fisheye=True)
        case "RAD_TAN_THIN_PRISM_FISHEYE":  # p0 and p1 are in reverse order
            prism = (k[8], k[9], k[10], k[11])
            return Polynomial(k[:6], tangential=(k[7], k[6]), prism=prism, fisheye=True, tangential_last=True)
        case "FOV" if math.isclose(k[0], 0, abs_tol=1e-9):
            return None
        case "FOV":
            return Fov(*k)
        case "SIMPLE_DIVISION" | "DIVISION":
            return Division(*k)
        case "EUCM" if 0 <= k[0] <= 1 and k[1] > 0:
            return Eucm(*k)
    raise SceneError(f"camera {camera.id} ({camera.model}) has the invalid parameters {k}: calibrate it again")

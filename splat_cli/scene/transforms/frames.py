"""One frame of a transforms file: photograph, pose and lens."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.scene.dataset import Frame, FrameDepth, Unusable, existing_end, file_inside, sanitize_name
from splat_cli.scene.images.decode import image_size
from splat_cli.scene.lens import Lens
from splat_cli.scene.lens.distortion import Distortion, Polynomial
from splat_cli.scene.transforms.document import matrix, number, text

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".PNG", ".JPG", ".JPEG", ".WEBP")
_MODELS = ("PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "FULL_OPENCV", "PERSPECTIVE")
_FISHEYE_MODELS = ("OPENCV_FISHEYE", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "FISHEYE", "THIN_PRISM_FISHEYE")
_SPHERES = ("EQUIRECTANGULAR", "SPHERICAL")
_FLIP_Y_AND_Z = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenGL's camera looks along -z with y up
_MAX_SIDE = 1 << 18
_MAX_SHEAR = 1.01
"""Maximum ratio of the scales along two axes of a pose; files round to a few digits."""


def frame_from(entry: Any, shared: dict[str, Any], photos: Path, match_basename: bool = False) -> Frame:
    """The entry as a frame; lens parameters missing in the entry are taken from `shared`. Unusable with the reason.

    match_basename: as in `located`.
    """
    if not isinstance(entry, dict):
        raise Unusable("is not a JSON object")
    file = text(entry, "file_path")
    if file is None:
        raise Unusable("has no `file_path`")
    file = located(photos, file, match_basename)
    c2w = matrix(entry.get("transform_matrix"))
    if c2w is None or abs(np.linalg.det(c2w[:3, :3])) < 1e-12:
        raise Unusable("its `transform_matrix` is not an invertible matrix of finite numbers")
    lens = _lens({**shared, **entry}, photos / file)
    return Frame(
        sanitize_name(file), file, lens, w2c_of(c2w), text(entry, "mask_path"), depth=_depth({**shared, **entry})
    )


def name_of(entry: Any, index: int) -> str:
    """Name of an entry, for messages."""
    file = entry.get("file_path") if isinstance(entry, dict) else None
    return file if isinstance(file, str) and file else f"frame {index}"


def w2c_of(c2w: np.ndarray) -> np.ndarray:
    """World to camera with z forward, from camera to world with z backward; a scale is removed.

    Unusable if it is not finite, or mirrors or shears the picture.
    """
    if not np.isfinite(c2w).all():
        raise Unusable("its pose is not finite")
    rotation, center = c2w[:3, :3] @ _FLIP_Y_AND_Z[:3, :3], c2w[:3, 3]
    u, scales, vt = np.linalg.svd(rotation)
    if np.linalg.det(u @ vt) < 0:
        raise Unusable("its pose mirrors the picture")
    if scales[0] > _MAX_SHEAR * scales[2]:
        raise Unusable("its pose shears the picture; expected a rotation, a scale and a shift")
    w2c = np.eye(4)
    w2c[:3, :3] = (u @ vt).T
    w2c[:3, 3] = -w2c[:3, :3] @ center
    return w2c


def located(photos: Path, file: str, match_basename: bool = False) -> str:
    """The file relative to `photos`, by the longest end of its path that is there; Blender omits the suffix. Unusable.

    instant-ngp's paths start where colmap2nerf.py ran, with backslashes on Windows. Ends without a folder only count
    with match_basename, for folders that the user chose: cameras of a rig may number their files alike.
    """
    try:
        found = existing_end(photos, file, match_basename, ("", *_SUFFIXES))
        return str(found or file_inside(photos, file).relative_to(photos))
    except (OSError, ValueError):  # no file's name
        raise Unusable("its `file_path` is not a file name") from None


def _lens(values: dict[str, Any], photo: Path) -> Lens:
    width, height = _size(values, photo)
    fx = number(values, "fl_x") or _focal(number(values, "camera_angle_x"), width)
    fy = number(values, "fl_y") or _focal(number(values, "camera_angle_y"), height) or fx
    fx = fx or fy
    if fx is None or fy is None or not (fx > 0 and fy > 0):
        raise Unusable("it has no focal length (fl_x or camera_angle_x), or one that is not positive")
    cx, cy = number(values, "cx"), number(values, "cy")
    return Lens(
        width, height, fx, fy, width / 2 if cx is None else cx, height / 2 if cy is None else cy, _distortion(values)
    )


def _depth(values: dict[str, Any]) -> FrameDepth | None:
    """nerfstudio's depth_file_path, instant-ngp's depth_path with integer_depth_scale."""
    file = text(values, "depth_file_path")
    if file is not None:
        return FrameDepth(file, unit=_positive(values, "depth_unit_scale_factor"))
    file = text(values, "depth_path")
    return None if file is None else FrameDepth(file, unit=_positive(values, "integer_depth_scale"))


def _positive(values: dict[str, Any], key: str) -> float | None:
    value = number(values, key)
    if value is not None and not 1e-12 <= value <= 1e12:
        raise Unusable(f"its `{key}` is {value:g}, expected a positive number")
    return value


def _size(values: dict[str, Any], photo: Path) -> tuple[int, int]:
    """Size in pixels: as stated, or that of the photograph."""
    width, height = number(values, "w"), number(values, "h")
    if width is None or height is None:
        try:
            return image_size(photo)
        except ValueError as error:
            raise Unusable(str(error)) from error
    if not (1 <= width <= _MAX_SIDE and 1 <= height <= _MAX_SIDE):
        raise Unusable(f"its camera has the size {width:g}x{height:g}")
    return round(width), round(height)


def _focal(angle: float | None, side: int) -> float | None:
    """Focal length in pixels from the angle of view across `side` pixels."""
    if angle is None or not 0 < angle < math.pi:
        return None
    return side / (2 * math.tan(angle / 2))


def _distortion(values: dict[str, Any]) -> Distortion | None:
    model = (text(values, "camera_model") or "OPENCV").upper()
    fisheye = model in _FISHEYE_MODELS or values.get("is_fisheye") is True
    if model in _SPHERES:
        raise Unusable(f"its camera model {model!a} is spherical: cut its panoramas into perspective views first")
    if not fisheye and model not in _MODELS:
        known = ", ".join(_MODELS + _FISHEYE_MODELS)
        raise Unusable(f"its camera model {model!a} cannot be used; expected one of {known}")
    radial = tuple(number(values, f"k{i}") or 0.0 for i in (1, 2, 3, 4))
    tangential = (number(values, "p1") or 0.0, number(values, "p2") or 0.0)
    if model == "THIN_PRISM_FISHEYE":
        prism = (number(values, "sx1") or 0.0, 0.0, number(values, "sy1") or 0.0, 0.0)
        return Polynomial(radial=radial, tangential=tangential, prism=prism, fisheye=True)
    if fisheye:
        return Polynomial(radial=radial, fisheye=True)
    return Polynomial(radial=radial, tangential=tangential).or_none()

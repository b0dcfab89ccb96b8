"""transforms.json of nerfstudio and instant-ngp, and transforms_train.json of NeRF's synthetic Blender scenes.

Cameras look along -z with y up, as in OpenGL. Lenses are pinholes or fisheyes, common or one per frame.
"""

import contextlib
import math
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.json_input import is_number
from splat_cli.scene.dataset import (
    Dataset,
    Frame,
    FrameDepth,
    Points,
    SceneOptions,
    Unusable,
    existing_end,
    file_inside,
    not_read,
    sanitize_name,
    usable_frames,
)
from splat_cli.scene.images.decode import image_size
from splat_cli.scene.images.locate import image_folder
from splat_cli.scene.lens import Lens, RollingShutter, spherical_lens
from splat_cli.scene.lens.distortion import Distortion, FTheta, Polynomial
from splat_cli.scene.lens.rolling_shutter import MAX_ANGLE
from splat_cli.scene.points.point_cloud import read_point_cloud
from splat_cli.scene.readers.document import (
    matrix,
    number,
    pose_matrix,
    read_document,
    refuse_coefficients,
    text,
    w2c_from_opengl,
)
from splat_cli.terminal.console import first_of

FILE = "transforms.json"
TRAIN, TEST, POINTS = "transforms_train.json", "transforms_test.json", "points3d.ply"
_OTHERS = (TEST, "transforms_val.json")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".PNG", ".JPG", ".JPEG", ".WEBP")
_MODELS = ("PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "FULL_OPENCV", "PERSPECTIVE")
_FISHEYE_MODELS = ("OPENCV_FISHEYE", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "FISHEYE", "THIN_PRISM_FISHEYE")
_FTHETA = "FTHETA"
_RADIAL = ("k1", "k2", "k3", "k4")
_TANGENTIAL = (*_RADIAL, "p1", "p2")
_RATIONAL = ("k4", "k5", "k6", *_RADIAL[:3], "p1", "p2")
_PRISM = (*_TANGENTIAL, "sx1", "sy1")
_FOCALS = ("fl_x", "fl_y", "camera_angle_x", "camera_angle_y")
_SPHERES = ("EQUIRECTANGULAR", "SPHERICAL")
_KEYS = {
    *("frames", "ply_file_path", "applied_transform", "train_filenames", "val_filenames", "test_filenames"),
    *("file_path", "mask_path", "transform_matrix", "transform_matrix_start", "transform_matrix_end"),
    *("rolling_shutter", "depth_file_path", "depth_unit_scale_factor", "depth_path", "integer_depth_scale"),
    *("camera_model", "is_fisheye", "w", "h", "cx", "cy", *_FOCALS, *_RATIONAL, *_PRISM),
    *("angle_to_pixeldist_poly", "linear_cde"),
}
_KEYS_OF_BLENDER = _KEYS - {
    *("ply_file_path", "applied_transform", "train_filenames", "val_filenames", "test_filenames")
}
_WITHOUT_EFFECT = {
    *("applied_scale", "scale", "offset", "aabb_scale", "up", "orientation_override", "auto_scale_poses_override"),
    *("colmap_im_id", "sharpness", "rotation"),
}
"""Keys of other programs that place the scene in a cube, or do not concern the picture."""
_UNREAD = ("ftheta_p0", "latlong", "from_na", "from_mitsuba")
"""instant-ngp's keys of other lenses and axes."""
_MAX_SIDE = 1 << 18
_FOCAL_TOLERANCE = 0.05


def find_transforms(root: Path) -> Path | None:
    """The transforms.json in `root`."""
    return root / FILE if (root / FILE).is_file() else None


def read_transforms(root: Path, options: SceneOptions) -> Dataset:
    """Frames and point cloud of transforms.json, in coordinates before its `applied_transform`.

    Photographs are located as stated in the file, or with --images in that folder. Raises SceneError.
    """
    path = root / FILE
    document, entries = read_document(path)
    photos = root if options.images is None else image_folder(root, root, options)
    is_given = options.images is not None
    frames, skipped = frames_from(entries, document, photos, match_basename=is_given)
    undo = _applied(document, path)
    if undo is not None:
        frames = [_before(frame, undo) for frame in frames]
    frames, others = _with_known_depths(frames, document, undo)
    points = _points(root, document, undo)
    found = f"the frames in {path}{_unread(document, entries, _KEYS)}{others}"
    if options.lens != "keep" and any(frame.rolling_shutter for frame in frames):
        found += " (rolling shutters count only with --lens keep)"
    test_names = _test_names(document, photos, is_given)
    dataset = Dataset(found, photos, frames, points, skipped, test_names)
    return _without_unlisted(dataset, document, is_given)


def frames_from(
    entries: list[Any], shared: dict[str, Any], photos: Path, match_basename: bool = False
) -> tuple[list[Frame], list[str]]:
    """The usable frames, and "name: reason" of the others. Arguments as in `frame_from`."""
    named = ((name_of(entry, index), entry) for index, entry in enumerate(entries))
    return usable_frames(named, lambda _, entry: frame_from(entry, shared, photos, match_basename))


def _unread(document: dict[str, Any], entries: list[Any], read: Collection[str]) -> str:
    """Text that names what is not read and may change the picture, such as `time`; empty without anything."""
    keys = {*document}.union(*(entry.keys() for entry in entries if isinstance(entry, dict)))
    return not_read([*_outweighed(document, entries), *sorted(keys - {*read} - _WITHOUT_EFFECT - {*_UNREAD})])


def _outweighed(document: dict[str, Any], entries: list[Any]) -> list[str]:
    """Angles of view that differ from the focal lengths, such as BlenderNeRF's, which are those of the sensor."""
    found = set()
    for entry in filter(lambda entry: isinstance(entry, dict), entries):
        with contextlib.suppress(Unusable):
            values = _with_own(document, entry)
            for axis, side in (("x", "w"), ("y", "h")):
                given: list[Any] = [values.get(key) for key in (f"fl_{axis}", f"camera_angle_{axis}", side)]
                if all(map(is_number, given)) and not _agree(*given):
                    found.add(f"camera_angle_{axis}, which differs from fl_{axis}")
    return sorted(found)


def _agree(focal: float, angle: float, side: float) -> bool:
    """Whether an angle of view across `side` pixels gives about that focal length."""
    return 0 < angle < math.pi and math.isclose(focal, _focal_of(angle, side), rel_tol=_FOCAL_TOLERANCE)


def _focal_of(angle: float, side: float) -> float:
    return side / (2 * math.tan(angle / 2))


def _applied(document: dict[str, Any], path: Path) -> np.ndarray | None:
    """The transform float64 [4, 4] applied to the world, if any; SceneError if it is not a similarity."""
    value = document.get("applied_transform")
    if value is None:
        return None
    applied = matrix(value)
    if applied is not None:
        gram = applied[:3, :3] @ applied[:3, :3].T
        if np.linalg.det(applied[:3, :3]) > 1e-12 and np.allclose(gram, gram[0, 0] * np.eye(3), atol=1e-3 * gram[0, 0]):
            return applied
    raise SceneError(f"{path}: `applied_transform` is not a rotation, scale and shift (3 or 4 rows of 4 numbers)")


def _before(frame: Frame, applied: np.ndarray) -> Frame:
    """The frame in the world before `applied`; a scale changes its distance."""
    scale = np.cbrt(np.linalg.det(applied[:3, :3]))
    w2c = frame.w2c @ applied
    w2c[:3] /= scale
    return replace(frame, w2c=w2c, rolling_shutter=frame.rolling_shutter and frame.rolling_shutter.scaled(1 / scale))


def _with_known_depths(
    frames: list[Frame], document: dict[str, Any], applied: np.ndarray | None
) -> tuple[list[Frame], str]:
    """The frames, without depth maps if a scale of the poses is not that of the maps; and a text that says so.

    nerfstudio's maps are in units before `applied_scale`, and after the scale of `applied_transform`.
    """
    scales = {"applied_scale": document.get("applied_scale", 1)}
    if applied is not None:
        scales["applied_transform"] = np.cbrt(np.linalg.det(applied[:3, :3]))
    names = [key for key, scale in scales.items() if not (is_number(scale) and math.isclose(scale, 1, rel_tol=1e-3))]
    if not names or not any(frame.depth for frame in frames):
        return frames, ""
    others = not_read([f"depth maps, whose units the scale of `{names[0]}` changes"])
    return [replace(frame, depth=None) for frame in frames], others


def _points(root: Path, document: dict[str, Any], applied: np.ndarray | None) -> Points:
    file = document.get("ply_file_path")
    if file is None:
        return Points()
    try:
        path = file_inside(root, file, from_elsewhere=True) if isinstance(file, str) else None
    except Unusable:
        path = None
    if path is None:
        raise SceneError(f"{root / FILE}: `ply_file_path` is {ascii(file)[:80]}, expected a file in the scene's folder")
    if not path.is_file():
        raise SceneError(f"{root / FILE}: `ply_file_path` names {path}, which is not there: copy it, or remove the key")
    points = read_point_cloud(path)
    if applied is not None:
        inverse = np.linalg.inv(applied)
        with np.errstate(over="ignore", invalid="ignore"):  # points that are not finite are dropped later
            points.positions = points.positions @ inverse[:3, :3].T + inverse[:3, 3]
    return points


def _test_names(document: dict[str, Any], photos: Path, match_basename: bool) -> frozenset[str] | None:
    """nerfstudio's `test_filenames`, or else `val_filenames`, as the frames' files are located; None without any."""
    return _listed(document, _test_key(document), photos, match_basename)


def _test_key(document: dict[str, Any]) -> str:
    return "test_filenames" if document.get("test_filenames") else "val_filenames"


def _listed(document: dict[str, Any], key: str, photos: Path, match_basename: bool) -> frozenset[str] | None:
    names = document.get(key)
    if not names:
        return None
    if not isinstance(names, list):  # --eval would hold out others
        raise SceneError(f"{FILE}: `{key}` is {ascii(names)[:80]}, expected a list of names: correct or remove it")
    found = set()
    for name in names:
        with contextlib.suppress(Unusable):
            found.add(located(photos, name, match_basename) if isinstance(name, str) else "")
    return frozenset(found)


def _without_unlisted(dataset: Dataset, document: dict[str, Any], is_given: bool) -> Dataset:
    """The dataset without the frames that nerfstudio neither trains on nor tests, by its lists.

    Frames that it both trains on and tests count as held out, and are named.
    """
    lists = [_listed(document, key, dataset.photos, is_given) for key in ("train_filenames", "val_filenames")]
    held_out = dataset.test_names or frozenset()
    trained = {frame.file for frame in dataset.frames} - (lists[1] or set()) if lists[0] is None else lists[0]
    frames = [frame for frame in dataset.frames if frame.file in trained | held_out]
    others = [frame.name for frame in dataset.frames if frame.file not in trained | held_out]
    skipped = [f"{name}: not to be trained on, nor in `{_test_key(document)}`" for name in others]
    both = sorted(frame.name for frame in frames if frame.file in (lists[0] or set()) & held_out)
    found = dataset.found + _in_both(both, "train_filenames", _test_key(document))
    return replace(dataset, found=found, frames=frames, skipped=dataset.skipped + skipped)


def _in_both(names: list[str], *lists: str) -> str:
    """Text that names photographs of a training and of a test list; empty without any."""
    return f" ({first_of(names)}: in {' and '.join(lists)}, held out with --eval)" if names else ""


def find_blender(root: Path) -> Path | None:
    """The transforms_train.json in `root`."""
    return root / TRAIN if (root / TRAIN).is_file() else None


def without_training_frames(root: Path) -> str | None:
    """Error message if `root` has files of a Blender scene, but not the training frames; else None."""
    others = [name for name in _OTHERS if (root / name).is_file()]
    if not others or (root / TRAIN).is_file():
        return None
    return (
        f"{root} has {' and '.join(others)}, but no {TRAIN}, which names the photographs to train on: add it, "
        f"or rename {others[0]} to train on its photographs"
    )


def read_blender(root: Path, options: SceneOptions) -> Dataset:
    """Training and test frames; points from points3d.ply if it exists. Raises SceneError."""
    if reason := without_training_frames(root):
        raise SceneError(reason)
    photos = root if options.images is None else image_folder(root, root, options)
    document, entries = read_document(root / TRAIN)
    unread = _unread(document, entries, _KEYS_OF_BLENDER)
    frames, skipped = frames_from(entries, document, photos)
    test_names = None
    if (root / TEST).is_file():
        document, entries = read_document(root / TEST)
        unread = unread or _unread(document, entries, _KEYS_OF_BLENDER)
        test_frames, test_skipped = frames_from(entries, document, photos)
        test_names = frozenset(frame.name for frame in test_frames)
        unread += _in_both(sorted(test_names & {frame.name for frame in frames}), TRAIN, TEST)
        frames, skipped = frames + test_frames, skipped + test_skipped
    points = read_point_cloud(root / POINTS) if (root / POINTS).is_file() else Points()
    return Dataset(f"Blender's frames in {root / TRAIN}{unread}", photos, frames, points, skipped, test_names)


def frame_from(entry: Any, shared: dict[str, Any], photos: Path, match_basename: bool) -> Frame:
    """The entry as a frame; lens parameters missing in the entry are taken from `shared`. Unusable with the reason.

    match_basename: as in `located`.
    """
    if not isinstance(entry, dict):
        raise Unusable("is not a JSON object")
    file = text(entry, "file_path")
    if file is None:
        raise Unusable("has no `file_path`")
    file = located(photos, file, match_basename)
    values = _with_own(shared, entry)
    w2c, shutter = _pose(values)
    return Frame(
        sanitize_name(file),
        file,
        _lens(values, photos / file),
        w2c,
        text(entry, "mask_path"),
        depth=_depth(values),
        rolling_shutter=shutter,
    )


def _with_own(shared: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """The values of a frame and the shared ones, except shared focal lengths if the frame has its own."""
    has_own, is_shared = ({key[-1] for key in _FOCALS if key in values} for values in (entry, shared))
    if has_own and (lacking := is_shared - has_own):
        raise Unusable(f"it has its own focal length along one axis only: state it along {lacking.pop()}, too")
    return {**{key: value for key, value in shared.items() if not (has_own and key in _FOCALS)}, **entry}


def _pose(values: dict[str, Any]) -> tuple[np.ndarray, RollingShutter | None]:
    """World to camera, and the motion during the photograph.

    instant-ngp's `transform_matrix_start` and `transform_matrix_end` are the poses at times 0 and 1; `rolling_shutter`
    [a, b, c, d] says that a pixel is taken at a + b x / width + c y / height, exposed for d; zeros by default.
    """
    start, end = (f"transform_matrix_{which}" for which in ("start", "end"))
    if start not in values or end not in values:
        return _w2c(values, "transform_matrix"), None
    times = values.get("rolling_shutter", [0, 0, 0, 0])
    if not isinstance(times, list) or len(times) not in (3, 4) or not all(map(is_number, times)):
        raise Unusable("its `rolling_shutter` is not a list of 4 numbers")
    at_top, by_column, by_row = times[:3]
    if by_column or not (0 <= at_top <= 1 and 0 <= at_top + by_row <= 1):
        raise Unusable("its `rolling_shutter` is not from row to row, between the times 0 and 1")
    first, last = _w2c(values, start), _w2c(values, end)
    if (np.trace(last[:3, :3] @ first[:3, :3].T) - 1) / 2 < math.cos(MAX_ANGLE):
        raise Unusable(f"its camera turns by more than {np.rad2deg(MAX_ANGLE):.0f} degrees during the photograph")
    middle, motion = RollingShutter.between(first, last)
    top, bottom = (motion.pose(middle, time - 0.5) for time in (at_top, at_top + by_row))
    w2c, shutter = RollingShutter.between(top, bottom)
    return w2c, shutter if by_row else None


def _w2c(values: dict[str, Any], key: str) -> np.ndarray:
    return w2c_from_opengl(pose_matrix(values.get(key), key))


def name_of(entry: Any, index: int) -> str:
    """Name of an entry, for messages."""
    file = entry.get("file_path") if isinstance(entry, dict) else None
    return file if isinstance(file, str) and file else f"frame {index}"


def located(photos: Path, file: str, match_basename: bool) -> str:
    """The file relative to `photos`: the longest tail of its path that exists; Blender omits the suffix. Unusable.

    instant-ngp's paths start where colmap2nerf.py ran, with backslashes on Windows. A bare file name only counts
    with match_basename, for folders that the user chose: cameras of a rig may use the same file names.
    """
    try:
        found = existing_end(photos, file, match_basename, ("", *_SUFFIXES))
        return str(found or file_inside(photos, file).relative_to(photos))
    except (OSError, ValueError):  # not a file name
        raise Unusable("its `file_path` is not a file name") from None


def _lens(values: dict[str, Any], photo: Path) -> Lens:
    if unread := [key for key in _UNREAD if values.get(key) is not None and values[key] is not False]:
        raise Unusable(f"its `{unread[0]}`, of instant-ngp, changes rays and is not read here: write it without")
    width, height = _size(values, photo)
    model = (text(values, "camera_model") or "").upper()
    if model in _SPHERES:
        return spherical_lens(width, height)
    if model == _FTHETA:
        return _ftheta_lens(values, width, height)
    fx, fy = _focal(values, "x", width), _focal(values, "y", height)
    if fx is None and fy is None:
        raise Unusable("it has no focal length (fl_x or camera_angle_x)")
    fx, fy = fx or fy or 0.0, fy or fx or 0.0
    cx, cy = number(values, "cx"), number(values, "cy")
    return Lens(
        width, height, fx, fy, width / 2 if cx is None else cx, height / 2 if cy is None else cy, _distortion(values)
    )


def _ftheta_lens(values: dict[str, Any], width: int, height: int) -> Lens:
    """gsplat's parameters: the radius in pixels by powers of the angle, from a^0 on; [[c, d], [e, 1]] applied to it."""
    constant, focal, *higher = _numbers(values, "angle_to_pixeldist_poly", 6)
    linear = _numbers(values, "linear_cde", 3) if "linear_cde" in values else [1.0, 0.0, 0.0]
    if constant or not (focal > 0 and linear[0] > 0) or any(linear[1:]):
        raise Unusable("its lens has an offset of the radius, no positive slope, or shear: undistort the photograph")
    cx, cy = number(values, "cx"), number(values, "cy")
    center = width / 2 if cx is None else cx, height / 2 if cy is None else cy
    return Lens(width, height, linear[0] * focal, focal, *center, FTheta(tuple(c / focal for c in higher)))


def _numbers(values: dict[str, Any], key: str, most: int) -> list[float]:
    """A list of 2 to `most` finite numbers. Unusable otherwise."""
    given = values.get(key)
    if not isinstance(given, list) or not 2 <= len(given) <= most or not all(map(is_number, given)):
        raise Unusable(f"its `{key}` is not a list of 2 to {most} finite numbers")
    return [float(one) for one in given]


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


def _focal(values: dict[str, Any], axis: str, side: int) -> float | None:
    """Focal length in pixels: as stated, else from the angle of view across `side` pixels; None without both.

    Unusable if it is not positive.
    """
    focal, angle = number(values, f"fl_{axis}"), number(values, f"camera_angle_{axis}")
    if focal is None and angle is not None and 0 < angle < math.pi:
        focal = _focal_of(angle, side)
    if (focal is None and angle is None) or (focal is not None and focal > 0):
        return focal
    raise Unusable(f"its focal length along {axis} is not positive (fl_{axis}, or camera_angle_{axis} below pi)")


def _distortion(values: dict[str, Any]) -> Distortion | None:
    is_fisheye = values.get("is_fisheye") or False
    model = (text(values, "camera_model") or ("OPENCV_FISHEYE" if is_fisheye else "OPENCV")).upper()
    fisheye = model in _FISHEYE_MODELS
    if not isinstance(is_fisheye, bool) or (is_fisheye and not fisheye):
        raise Unusable(f"its `is_fisheye` is {str(is_fisheye)[:40]!a} and its camera model {model!a}: correct one")
    if not fisheye and model not in _MODELS:
        known = ", ".join((*_MODELS, *_FISHEYE_MODELS, _FTHETA, *_SPHERES))
        raise Unusable(f"its camera model {model!a} cannot be used; expected one of {known}")
    read = {"THIN_PRISM_FISHEYE": _PRISM, "FULL_OPENCV": _RATIONAL}.get(model, _RADIAL if fisheye else _TANGENTIAL)
    refuse_coefficients(values, read)
    radial = tuple(number(values, name) or 0.0 for name in _RADIAL)
    tangential = (number(values, "p1") or 0.0, number(values, "p2") or 0.0)
    if model == "THIN_PRISM_FISHEYE":
        prism = (number(values, "sx1") or 0.0, 0.0, number(values, "sy1") or 0.0, 0.0)
        return Polynomial(radial=radial, tangential=tangential, prism=prism, fisheye=True)
    if fisheye:
        return Polynomial(radial=radial, fisheye=True)
    if model == "FULL_OPENCV":
        rational = tuple(number(values, name) or 0.0 for name in _RATIONAL[:3])
        return Polynomial(radial=radial[:3], rational=rational, tangential=tangential).or_none()
    return Polynomial(radial=radial, tangential=tangential).or_none()

"""cameras.json, in the layout of the INRIA code with additional keys.

`cx`, `cy` and `camera_id`; `k1`, `k2` where the radial distortion of View.radial is not zero; `lens` of views that keep
it: the family of its distortion and the fields of that class (scene/lens/distortion.py); `rolling_shutter`: fields of
RollingShutter; `origin`: offset subtracted from geographic coordinates (scene/georeferenced.py), if there is one.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import FormatError, reason_of
from splat_cli.io.files import replacing
from splat_cli.io.json_input import number, numbers, parse_json, read_json_text, whole
from splat_cli.scene.dataset import Unusable
from splat_cli.scene.georeferenced import moved_pose, relative_views
from splat_cli.scene.lens import MAX_SIDE, RollingShutter
from splat_cli.scene.lens.distortion import distortion_from_dict, distortion_to_dict
from splat_cli.scene.quaternion import is_rotation, world_to_camera
from splat_cli.scene.readers.document import refuse_coefficients
from splat_cli.scene.view import MAX_NUMBER, View


def write_cameras(path: Path, views: Sequence[View], origin: Iterable[float] = ()) -> None:
    """Write one entry per view; `position` and rows of `rotation` are camera to world, sizes in pixels.

    origin: that positions are relative to; empty or zeros: none.
    """
    stated = list(map(float, origin))
    more = {"origin": stated} if any(stated) else {}
    entries = [{**_entry(number, view), **more} for number, view in enumerate(views)]
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


def read_cameras(path: Path, origin: np.ndarray | None = None) -> list[View]:
    """The cameras in `path`, in the file's order, without photographs. Raises FormatError.

    origin: of the splats that they show, float64 [3]. Cameras that state another origin, or that are in geographic
    coordinates, are moved; None, or zeros: they are taken as they are.
    """
    entries = read_json(path)
    if not isinstance(entries, list) or not entries:
        raise FormatError(f"{path}: expected a list of at least one camera")
    views = [_view(entry, f"{path}: camera {number}") for number, entry in enumerate(entries)]
    if origin is None or not origin.any():
        return views
    stated = [_stated_origin(entry, f"{path}: camera {number}") for number, entry in enumerate(entries)]
    if all(one is None for one in stated):
        return relative_views(views, origin)
    poses = [
        moved_pose(view.w2c, origin if one is None else origin - one) for view, one in zip(views, stated, strict=True)
    ]
    return [dataclasses.replace(view, w2c=w2c) for view, w2c in zip(views, poses, strict=True)]


def _stated_origin(entry: Any, where: str) -> np.ndarray | None:
    """float64 [3], None if the entry states none. FormatError if it is not three numbers."""
    try:
        return numbers(entry, "origin", 3) if "origin" in entry else None
    except ValueError as error:
        raise FormatError(f"{where}: {reason_of(error)}") from None


def read_json(path: Path) -> Any:
    """Content of a JSON file. Raises FormatError."""
    try:
        return parse_json(read_json_text(path))
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise FormatError(f"{path} is not a JSON file ({error})") from None


def _entry(number: int, view: View) -> dict[str, Any]:
    return {
        "id": number,
        "img_name": view.name,
        "width": view.width,
        "height": view.height,
        "position": view.center.tolist(),
        "rotation": view.w2c[:3, :3].T.tolist(),
        "fx": view.fx,
        "fy": view.fy,
        "cx": view.cx,
        "cy": view.cy,
        "camera_id": view.camera_id,
        **(dict(zip(("k1", "k2"), view.radial, strict=True)) if any(view.radial) else {}),
        **({} if view.distortion is None else {"lens": distortion_to_dict(view.distortion)}),
        **({} if view.rolling_shutter is None else {"rolling_shutter": vars(view.rolling_shutter)}),
    }


def _view(entry: Any, where: str) -> View:
    try:
        name = str(entry["img_name"])
        width, height = whole(entry, "width"), whole(entry, "height")
        focal = number(entry, "fx"), number(entry, "fy")
        center = number(entry, "cx", width / 2), number(entry, "cy", height / 2)
        position, rotation = numbers(entry, "position", 3), numbers(entry, "rotation", 3, 3)
        camera_id = whole(entry, "camera_id", 0)
        radial = number(entry, "k1", 0), number(entry, "k2", 0)
        lens = distortion_from_dict(entry["lens"]) if "lens" in entry else None
        shutter = RollingShutter.from_dict(entry["rolling_shutter"]) if "rolling_shutter" in entry else None
        refuse_coefficients(entry, ("k1", "k2"))
    except Unusable as reason:
        raise FormatError(f"{where}: {reason}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        wanted = "img_name, width, height, position [3], rotation [3][3], fx and fy"
        raise FormatError(f"{where}: expected {wanted} (wrong: {reason_of(error)})") from None
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise FormatError(f"{where}: {width}x{height} is not the size of an image")
    if not is_rotation(rotation):
        raise FormatError(f"{where}: `rotation` is not a rotation matrix")
    with np.errstate(over="ignore", invalid="ignore"):
        w2c = world_to_camera(rotation.T, position)
    view = View(name, None, width, height, *focal, *center, w2c, camera_id=camera_id, radial=radial, distortion=lens)
    if shutter is not None and lens is not None:
        view = dataclasses.replace(view, rolling_shutter=shutter)
    if not view.is_in_range:
        raise FormatError(
            f"{where}: position, focal lengths, principal point, k1 and k2 have to be finite, focal lengths > 0, "
            f"all below {MAX_NUMBER:g}"
        )
    return view

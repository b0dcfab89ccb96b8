"""Captures of phone apps with ARKit's poses: Polycam, 3D Scanner App and Record3D.

ARKit's cameras look along -z with y up, in a world of metres whose y axis points up.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.files import regular
from splat_cli.io.json_input import numbers, parse_json, read_json_text
from splat_cli.scene.dataset import (
    Dataset,
    Frame,
    FrameDepth,
    Points,
    SceneOptions,
    Unusable,
    sanitize_name,
    usable_frames,
)
from splat_cli.scene.images.locate import ImageIndex, export_image_folder
from splat_cli.scene.lens import Lens
from splat_cli.scene.quaternion import matrix_from_quat
from splat_cli.scene.readers.document import number, pose_matrix, refuse_coefficients, w2c_from_opengl

_POLYCAM = [f"t_{row}{column}" for row in range(3) for column in range(4)]


def find_polycam(root: Path) -> Path | None:
    """The folder of the cameras in an export of "raw data": the corrected ones, if any."""
    folders = [root / place / kind for place in ("keyframes", ".") for kind in ("corrected_cameras", "cameras")]
    return next((folder for folder in folders if next(folder.glob("*.json"), None)), None)


def read_polycam(root: Path, options: SceneOptions) -> Dataset:
    """A file per photograph, with pose and lens; images or corrected_images are next to them. Raises SceneError."""
    cameras = find_polycam(root)
    if cameras is None:
        raise SceneError(f"{root} has no keyframes/cameras of Polycam: export the capture as raw data")
    folder = cameras.with_name(cameras.name.replace("cameras", "images"))
    images = ImageIndex(export_image_folder(folder, options))

    def frame(path: Path) -> Frame:
        values = _object(path)
        c2w = pose_matrix([_required(values, key) for key in _POLYCAM])
        lens = [_required(values, key) for key in ("fx", "fy", "cx", "cy")]
        size = _required(values, "width"), _required(values, "height")
        depth = _depth(root, cameras.parent, f"depth/{path.stem}.png", f"confidence/{path.stem}.png")
        return _frame(images, path.stem, c2w, lens, size, depth)

    return _dataset(f"Polycam's cameras in {cameras}", images, sorted(cameras.glob("*.json")), frame)


def find_scanner_app(root: Path) -> Path | None:
    """The first frame_*.json with an ARKit pose, as in 3D Scanner App's "all data"."""
    for path in sorted(root.glob("frame_*.json"))[:1]:
        if b"cameraPoseARFrame" in regular(path).read_bytes():
            return path
    return None


def read_scanner_app(root: Path, options: SceneOptions) -> Dataset:
    """A file per frame; files without a photograph contain depth maps and are skipped. Raises SceneError."""
    images = ImageIndex(export_image_folder(root, options))

    def frame(path: Path) -> Frame:
        values = _object(path)
        c2w = pose_matrix(_numbers(values, "cameraPoseARFrame", 16))
        k = _numbers(values, "intrinsics", 9)
        number = path.stem.removeprefix("frame_")
        depth = _depth(root, root, f"depth_{number}.png", f"conf_{number}.png")
        return _frame(images, path.stem, c2w, [k[0], k[4], k[2], k[5]], depth=depth)

    paths = [path for path in sorted(root.glob("frame_*.json")) if path.with_suffix(".jpg").is_file()]
    return _dataset(f"3D Scanner App's frames in {root}", images, paths, frame)


def find_record3d(root: Path) -> Path | None:
    """The metadata of a Record3D capture, exported as images or unpacked from an .r3d file."""
    for name, folder in (("metadata.json", "rgb"), ("metadata", "rgbd")):
        if (root / name).is_file() and (root / folder).is_dir():
            return root / name
    return None


def read_record3d(root: Path, options: SceneOptions) -> Dataset:
    """A pose per photograph in order of their numbers, one lens for all or one each. Raises SceneError."""
    path = find_record3d(root)
    if path is None:
        raise SceneError(f"{root} has no metadata.json with rgb/ of Record3D")
    images = ImageIndex(export_image_folder(root / ("rgb" if path.suffix else "rgbd"), options))
    try:
        values = _object(path)
        size = (_required(values, "w"), _required(values, "h"))
        k, poses = _numbers(values, "K", 9), values.get("poses")
        if not isinstance(poses, list) or not poses:
            raise Unusable("its `poses` is not a list")
    except Unusable as reason:
        raise SceneError(f"{path}: {reason}: export the capture again") from None
    lenses = values.get("perFrameIntrinsicCoeffs") or None  # a capture with one lens may have an empty list
    if lenses is not None and not (isinstance(lenses, list) and len(lenses) == len(poses)):
        raise SceneError(f"{path}: `perFrameIntrinsicCoeffs` is not a list of one lens per pose: export it again")

    def frame(index: int) -> Frame:
        x, y, z, w, *center = _numbers({"pose": poses[index]}, "pose", 7)
        c2w = np.eye(4)
        c2w[:3, :3], c2w[:3, 3] = matrix_from_quat((w, x, y, z)), center
        lens = [k[0], k[4], k[6], k[7]]  # column by column
        if lenses is not None:
            lens = _numbers({"lens": lenses[index]}, "lens", 4)
        depth = _depth(root, root, f"depth/{index}.exr", f"confidence/{index}.png")
        return _frame(images, str(index), pose_matrix(c2w.ravel().tolist()), lens, size, depth)

    return _dataset(f"Record3D's cameras in {path}", images, range(len(poses)), frame)


def _depth(root: Path, folder: Path, file: str, confidence: str) -> FrameDepth | None:
    """Depths in millimetres, or metres in OpenEXR, and confidences; None without depths."""
    if not (folder / file).is_file():
        return None
    place = folder.relative_to(root)
    return FrameDepth(str(place / file), str(place / confidence), unit=0.001)


def _dataset(found: str, images: ImageIndex, entries: Iterable[Any], read: Callable[[Any], Frame]) -> Dataset:
    """The dataset of the usable `entries`, which are paths or numbers of frames."""
    named = ((entry.name if isinstance(entry, Path) else f"frame {entry}", entry) for entry in entries)
    frames, skipped = usable_frames(named, lambda _, entry: read(entry))
    return Dataset(found, images.folder, frames, Points(), skipped)


def _frame(
    images: ImageIndex,
    label: str,
    c2w: np.ndarray,
    intrinsics: Sequence[float],
    size: tuple[float, float] | None = None,
    depth: FrameDepth | None = None,
) -> Frame:
    """The frame of a photograph. intrinsics: fx, fy, cx, cy for an image of `size` px, by default the photograph's."""
    file = images.find_label(label)
    width, height = map(round, size or images.size(file))
    fx, fy, cx, cy = intrinsics
    if not (fx > 0 and fy > 0 and min(width, height) > 0):
        raise Unusable(f"its lens has the focal lengths {fx:g}, {fy:g} and the size {width}x{height}")
    return Frame(sanitize_name(file), file, Lens(width, height, fx, fy, cx, cy), w2c_from_opengl(c2w), depth=depth)


def _object(path: Path) -> dict[str, Any]:
    try:
        values = parse_json(read_json_text(path))
    except (OSError, ValueError) as error:
        raise Unusable(f"{path.name} is not a readable JSON file ({error})") from None
    if not isinstance(values, dict):
        raise Unusable(f"{path.name} has no JSON object")
    refuse_coefficients(values, ())  # photographs of phones are pinholes
    return values


def _required(values: dict[str, Any], key: str) -> float:
    value = number(values, key)
    if value is None:
        raise Unusable(f"it has no `{key}`")
    return value


def _numbers(values: dict[str, Any], key: str, count: int) -> list[float]:
    """`count` finite numbers. Unusable for anything else."""
    try:
        found: list[float] = numbers(values, key, count).tolist()
    except ValueError as error:
        raise Unusable(str(error)) from None
    return found

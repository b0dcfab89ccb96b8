"""transforms.json of nerfstudio and instant-ngp: pinhole or fisheye lenses, common or one per frame."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.dataset import Dataset, Frame, Points, Unusable, file_inside, usable_frames
from splat_cli.scene.images.locate import image_folder
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.points.point_cloud import read_point_cloud
from splat_cli.scene.transforms.document import matrix, read_document
from splat_cli.scene.transforms.frames import frame_from, located, name_of

FILE = "transforms.json"


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
        frames = [replace(frame, w2c=_moved(frame.w2c, undo)) for frame in frames]
    points = _points(root, document, undo)
    return Dataset(f"the frames in {path}", photos, frames, points, skipped, _test_names(document, photos, is_given))


def frames_from(
    entries: list[Any], shared: dict[str, Any], photos: Path, match_basename: bool = False
) -> tuple[list[Frame], list[str]]:
    """The usable frames, and "name: reason" of the others. Arguments as in `frame_from`."""
    named = ((name_of(entry, index), entry) for index, entry in enumerate(entries))
    return usable_frames(named, lambda _, entry: frame_from(entry, shared, photos, match_basename))


def _applied(document: dict[str, Any], path: Path) -> np.ndarray | None:
    """The transform float64 [4, 4] applied to the world, if any; SceneError if it is no similarity."""
    value = document.get("applied_transform")
    if value is None:
        return None
    applied = matrix(value)
    if applied is not None:
        gram = applied[:3, :3] @ applied[:3, :3].T
        if np.linalg.det(applied[:3, :3]) > 1e-12 and np.allclose(gram, gram[0, 0] * np.eye(3), atol=1e-3 * gram[0, 0]):
            return applied
    raise SceneError(f"{path}: `applied_transform` is not a rotation, scale and shift (3 or 4 rows of 4 numbers)")


def _moved(w2c: np.ndarray, applied: np.ndarray) -> np.ndarray:
    """The camera in the world before `applied`; a scale changes its distance."""
    before = w2c @ applied
    scale = np.cbrt(np.linalg.det(applied[:3, :3]))
    before[:3] /= scale
    return before


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
    """nerfstudio's `test_filenames`, as the frames' files are located."""
    names = document.get("test_filenames")
    if not isinstance(names, list) or not names:
        return None
    found = set()
    for name in names:
        with contextlib.suppress(Unusable):
            found.add(located(photos, name, match_basename) if isinstance(name, str) else "")
    return frozenset(found)

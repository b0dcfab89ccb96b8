"""COLMAP models, binary or text: lookup in a scene's folder, reading, writing."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.colmap import binary, text
from splat_cli.scene.colmap.model import Model

MODEL_FOLDERS = ("sparse/0", "sparse", "colmap/sparse/0", ".")
FILES = ("cameras", "images", "points3D")
UNREGISTERED = "unregistered.txt"
"""File in a scene's folder that `splat sfm` writes: names of the photographs without a pose, one per line."""


def has_model(root: Path) -> bool:
    """Whether a model, or a part of one, is under `root`."""
    return _model_folder(root) is not None


def find_model(root: Path) -> Path:
    """Folder of the model under `root`. SceneError without one."""
    folder = _model_folder(root)
    if folder is not None:
        return folder
    raise SceneError(
        f"{root} has no COLMAP model: there are no cameras, images and points3D files (.bin or .txt) in "
        "sparse/0, sparse, colmap/sparse/0 or the folder itself; run COLMAP on the photographs first"
    )


def _model_folder(root: Path) -> Path | None:
    return next(iter(model_folders(root)), None)


def model_folders(root: Path) -> list[Path]:
    """Folders of models, or of parts of one, under `root`; the first is read."""
    files = [f"{stem}{suffix}" for stem in FILES for suffix in (".bin", ".txt")]
    return [root / name for name in MODEL_FOLDERS if any((root / name / file).is_file() for file in files)]


def larger_sibling(folder: Path, num_images: int) -> tuple[Path, int] | None:
    """The sibling of `folder` with the most images, and their number, if it has more than `num_images`; else None."""
    sizes = {path: _num_images(path) for path in _siblings(folder, (".bin", ".txt"))}
    largest = max(sizes, key=sizes.__getitem__, default=None)
    return None if largest is None or sizes[largest] <= num_images else (largest, sizes[largest])


def _num_images(folder: Path) -> int:
    """Number of images of a model; 0 if it is damaged."""
    if (folder / "images.bin").is_file():
        return binary.num_images(folder / "images.bin")
    with suppress(SceneError):
        return len(text.read_images(folder / "images.txt"))
    return 0


def visible_points(folder: Path) -> dict[str, np.ndarray]:
    """Name of each image in the model -> ids of the points that it shows; empty for a text or damaged model."""
    with suppress(SceneError):
        return binary.read_visible_points(folder / "images.bin")
    return {}


def other_groups(folder: Path) -> dict[Path, set[str]]:
    """Siblings of the model in `folder` -> names of their images that are in no earlier model."""
    seen, groups = set(visible_points(folder)), {}
    for path in _siblings(folder):
        if path != folder:
            groups[path] = visible_points(path).keys() - seen
            seen |= groups[path]
    return groups


def _siblings(folder: Path, suffixes: Sequence[str] = (".bin",)) -> list[Path]:
    """The models of all parts of a scene, which COLMAP numbers; by default only binary ones."""
    if not folder.name.isdecimal():
        return []
    numbered = sorted(path for path in folder.parent.iterdir() if path.name.isdecimal())
    return [path for path in numbered if any((path / f"images{suffix}").is_file() for suffix in suffixes)]


def read_model(folder: Path) -> Model:
    """The model in `folder`; binary files take precedence over text."""
    for suffix, reader in ((".bin", binary), (".txt", text)):
        cameras, images, points = (folder / f"{stem}{suffix}" for stem in FILES)
        if cameras.is_file() and images.is_file() and points.is_file():
            return Model(reader.read_cameras(cameras), reader.read_images(images), *reader.read_points(points))
    present = sorted(path.name for path in folder.iterdir() if path.stem in FILES)
    raise SceneError(
        f"{folder} holds only {', '.join(present)} of a COLMAP model; "
        "cameras, images and points3D are needed, all .bin or all .txt: export the model again"
    )

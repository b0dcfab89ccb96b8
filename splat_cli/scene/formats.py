"""Detection of a scene's dataset format, and of its folder from a path within it."""

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from splat_cli.errors import SceneError, quoted
from splat_cli.io.files import Stamps, changed_since, files_read, stamps_of
from splat_cli.io.image_files import PHOTOGRAPH_SUFFIXES
from splat_cli.scene.colmap import FILES, find_model, has_model
from splat_cli.scene.colmap.dataset import find_colmap, read_colmap
from splat_cli.scene.dataset import Dataset, SceneOptions
from splat_cli.scene.readers.bundler import find_bundler, read_bundler
from splat_cli.scene.readers.metashape import find_metashape, read_metashape
from splat_cli.scene.readers.opensfm import find_opensfm, read_opensfm
from splat_cli.scene.readers.phones import (
    find_polycam,
    find_record3d,
    find_scanner_app,
    read_polycam,
    read_record3d,
    read_scanner_app,
)
from splat_cli.scene.readers.realityscan import find_realityscan, read_realityscan
from splat_cli.scene.readers.transforms import (
    find_blender,
    find_transforms,
    read_blender,
    read_transforms,
    without_training_frames,
)

DATASET_SUFFIXES = (".bin", ".txt", ".json", ".xml", ".csv", ".out")
"""Suffixes of dataset files that may be given instead of the scene's folder."""
_POINT_SUFFIXES = (".ply",)
_SPLAT_SUFFIXES = (".ply", ".splat", ".spz", ".sog", ".glb")
_ARCHIVE_SUFFIXES = (".tar", ".gz", ".tgz", ".xz", ".bz2", ".zst", ".7z", ".rar")
_MAX_FOLDERS = 1000  # limit of a search
_MAX_FILES = 10_000  # limit of a search
_SHOWN = 3
_A_SCENE = "a scene, such as one with a COLMAP model in sparse/0 (docs/input.md lists all formats)"
_MODEL_TAILS = ("colmap/sparse/0", "sparse/0", "colmap/sparse", "sparse")


@dataclass(frozen=True)
class DatasetFormat:
    """find: the format's file or folder under a root, None without one."""

    find: Callable[[Path], Path | None]
    read: Callable[[Path, SceneOptions], Dataset]


FORMATS: dict[str, DatasetFormat] = {
    "colmap": DatasetFormat(find_colmap, read_colmap),
    "blender": DatasetFormat(find_blender, read_blender),
    "transforms": DatasetFormat(find_transforms, read_transforms),
    "metashape": DatasetFormat(find_metashape, read_metashape),
    "realityscan": DatasetFormat(find_realityscan, read_realityscan),
    "bundler": DatasetFormat(find_bundler, read_bundler),
    "opensfm": DatasetFormat(find_opensfm, read_opensfm),
    "polycam": DatasetFormat(find_polycam, read_polycam),
    "scanner-app": DatasetFormat(find_scanner_app, read_scanner_app),
    "record3d": DatasetFormat(find_record3d, read_record3d),
}
"""Formats by name, in the order of detection."""


def has_dataset(root: Path) -> bool:
    """Whether `root` holds a dataset of any format."""
    return any(entry.find(root) is not None for entry in FORMATS.values())


def num_photographs(folder: Path) -> int:
    """Number of files in the folder that are photographs by their names; 0 if there is no folder."""
    return sum(path.suffix.lower() in PHOTOGRAPH_SUFFIXES for path in folder.glob("*.*"))


def has_photographs(folder: Path, most: int | None = None) -> bool:
    """Whether the folder contains photographs, at any depth. most: maximum number of entries to check."""
    below = filter(Path.is_dir, itertools.islice(folder.rglob("*"), most))
    return any(map(num_photographs, itertools.chain([folder], below)))


def scene_folder(path: Path, format: str = "auto") -> tuple[Path, str]:
    """(folder, format) of the scene at a path: its folder, the folder of its model, or a file of the dataset.

    `format` is returned unless `path` is a file, which determines it. SceneError for a file that belongs to no dataset.
    """
    if path.is_file():
        for name, entry in FORMATS.items():
            found = entry.find(path.parent)
            if found is not None and found.name == path.name:
                return path.parent, name if format == "auto" else format
        if not has_dataset(path.parent) and (reason := without_training_frames(path.parent)):
            raise SceneError(reason)
        if path.stem not in FILES:
            raise SceneError(f"{path} is not a scene: {_advice(path)}")
        if path.suffix == ".txt" and path.with_suffix(".bin").is_file():
            raise SceneError(f"{path.with_suffix('.bin')} is read before {path.name}: move one of the two elsewhere")
        path = path.parent
    for tail in map(Path, _MODEL_TAILS):
        whole = path if len(path.parts) > len(tail.parts) else path.resolve()
        root = whole.parents[len(tail.parts) - 1] if len(whole.parts) > len(tail.parts) else whole
        if root / tail == whole and has_model(root) and whole in ((model := find_model(root)), *model.parents):
            return root, format
    return path, format


def _advice(path: Path) -> str:
    """Advice, for an error message, for a file that is not a scene."""
    if path.name.lower().endswith(_SPLAT_SUFFIXES):
        name = quoted(path)
        return f"`splat view {name}` shows splats, `splat train SCENE --init-from {name}` starts from them"
    if path.name.lower().endswith(_ARCHIVE_SUFFIXES):
        return "unpack it and give the folder, or make it a zip file"
    if path.suffix.lower() in PHOTOGRAPH_SUFFIXES:
        return f"give the folder of the photographs, {path.parent}"
    return f"give a folder of photographs, a video, a zip file, or {_A_SCENE}"


def nested_scenes(root: Path) -> list[Path]:
    """Folders that hold a dataset, one or two levels under `root`, sorted."""
    folders = itertools.islice(
        (path for tail in ("*", "*/*") for path in root.glob(tail) if path.is_dir()), _MAX_FOLDERS
    )
    return sorted(folder for folder in folders if has_dataset(folder))


def _read_whole(name: str, root: Path, options: SceneOptions) -> Dataset:
    """The dataset in one format. SceneError if its files change meanwhile: its cameras may not belong together.

    Other files beside them, such as a log, may change.
    """
    before = _stamps(name, root)
    with files_read() as read:
        dataset = FORMATS[name].read(root, options)
    own = {path.resolve() for path in read}
    stamps = [
        {path: stamp for path, stamp in some.items() if path.resolve() in own} for some in (before, _stamps(name, root))
    ]
    if changed := changed_since(*stamps):
        raise SceneError(changed)
    return dataset


def _stamps(name: str, root: Path) -> Stamps:
    """Stamps of the files that may hold cameras and points."""
    found = None
    with suppress(OSError):  # reading it says so
        found = FORMATS[name].find(root)
    if found is None:
        return {}
    folder = found if found.is_dir() else found.parent
    files = {path for path in folder.glob("*") if path.suffix.lower() in (*DATASET_SUFFIXES, *_POINT_SUFFIXES)}
    return stamps_of(files if found.is_dir() else {found, *files})


def read_dataset(root: Path, options: SceneOptions) -> Dataset:
    """The dataset in `root`, in the format of the options, or the first one found. Raises SceneError."""
    if options.format != "auto":
        return _read_whole(options.format, root, options)
    present = [name for name, entry in FORMATS.items() if entry.find(root) is not None]
    if not present and (reason := without_training_frames(root)):
        raise SceneError(reason)
    if not present and (nested := nested_scenes(root)):
        shown = " or ".join(map(str, nested[:_SHOWN]))
        raise SceneError(f"{root} is not a scene, but holds {len(nested)}: give {shown}")
    if not present and has_photographs(root, _MAX_FILES):
        raise SceneError(f"{root} holds photographs without camera poses: `splat train {quoted(root)}` estimates them")
    if not present:
        raise SceneError(
            f"{root} has neither photographs nor camera poses: give a folder of photographs, a video, or {_A_SCENE}"
        )
    dataset = _read_whole(present[0], root, options)
    if len(present) > 1:
        dataset.found += f" (also there: {', '.join(present[1:])}; --format chooses)"
    return dataset

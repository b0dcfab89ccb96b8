"""Options for reading a scene, and contents of a dataset's files in any format, before photographs are located."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Self, TypeVar

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import SceneError
from splat_cli.scene.crop import Crop, parse_crop
from splat_cli.scene.lens import Lens
from splat_cli.scene.lens.rolling_shutter import RollingShutter
from splat_cli.scene.quaternion import camera_center

MAX_PHOTOGRAPHS = 1 << 16
"""Maximum number of photographs, more than in any public dataset; names and poses then take 50 MB."""
_MAX_SHOWN, _SHOWN = 120, 3  # characters of a name, and names, in messages
Entry = TypeVar("Entry")


class Unusable(Exception):
    """Reason to skip a photograph."""


@dataclass(frozen=True, slots=True)
class FrameDepth:
    """Depth map that a dataset names, in world units: files of depths and confidences, relative to the scene's folder.

    unit: world units per level of integers; None: the value of --depth-unit.
    """

    file: str
    confidence: str | None = None
    unit: float | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Frame:
    """A photograph: its file, lens and pose; file of its mask; its depth map.

    camera_id: equal for photographs of one camera; None: photographs with equal lenses share one. rolling_shutter:
    motion of the camera while the rows were taken; w2c is then its pose at mid-height.
    """

    name: str
    file: str
    lens: Lens
    w2c: np.ndarray  # float64 [4, 4]
    mask: str | None = None
    camera_id: int | None = None
    depth: FrameDepth | None = None
    rolling_shutter: RollingShutter | None = None

    @property
    def center(self) -> np.ndarray:
        """See `camera_center`."""
        return camera_center(self.w2c)


@dataclass
class Points:
    """Positions float [P, 3], colours uint8 [P, 3]; reprojection errors (px) and numbers of observations, if known.

    num_noise: further points, which the file marks as noise.
    """

    positions: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    colors: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.uint8))
    errors: np.ndarray | None = None  # float [P]
    track_lengths: np.ndarray | None = None  # int [P]
    num_noise: int = 0


def whole_levels(colors: np.ndarray) -> np.ndarray:
    """uint8 of colours. ValueError for numbers that are not from 0 to 255, such as 16-bit colours and NaN."""
    if not ((colors >= 0) & (colors <= 255)).all():
        raise ValueError("colours of points are not numbers from 0 to 255")
    return np.asarray(colors).astype(np.uint8)


@dataclass
class Dataset:
    """found: description of what was read. test_names: photographs that the dataset holds out.

    origin: float64 [3], offset subtracted from all coordinates (scene/georeferenced.py).
    """

    found: str
    photos: Path
    frames: list[Frame]
    points: Points
    skipped: list[str] = field(default_factory=list)
    test_names: frozenset[str] | None = None
    origin: np.ndarray = field(default_factory=lambda: np.zeros(3))


def usable_frames(
    entries: Iterable[tuple[str, Entry]], read: Callable[[str, Entry], Frame]
) -> tuple[list[Frame], list[str]]:
    """The frames that `read` returns for names and entries, and "name: reason" of entries that raise Unusable."""
    frames, skipped = [], []
    for name, entry in entries:
        try:
            frames.append(read(name, entry))
        except Unusable as reason:
            skipped.append(f"{shown_name(name)}: {reason}")
    return frames, skipped


def check_count(path: Path, what: str, count: int) -> None:
    """SceneError if a dataset's file lists more cameras, images or frames than a dataset may have."""
    if count > MAX_PHOTOGRAPHS:
        raise SceneError(f"{path} lists more than {MAX_PHOTOGRAPHS:,} {what}, the maximum: split the scene")


def sanitize_name(name: str) -> str:
    """Name of a photograph with escapes for control characters and undecodable bytes."""
    return name if name.isprintable() else ascii(name)[1:-1]


def shown_name(name: str) -> str:
    """Name of a photograph for messages: sanitised, and shortened if it is longer than file names usually are."""
    name = sanitize_name(name)
    return name if len(name) <= _MAX_SHOWN else f"{name[: _MAX_SHOWN // 2]}...{name[-_MAX_SHOWN // 4 :]}"


def not_read(names: Sequence[object]) -> str:
    """Text that names up to three things that a reader found and does not read; empty if there are none."""
    shown = ", ".join([*(shown_name(str(name)) for name in names[:_SHOWN]), *["..."][: len(names) > _SHOWN]])
    return f" (not read: {shown})" if names else ""


def folded(name: str) -> str:
    """A name without differences of case and of Unicode normalisation: some systems compose accents, others do not."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def path_ends(path: str) -> list[str]:
    """A path of any system without its root, then without its first folder, its first two, ..., down to the name."""
    pure = PureWindowsPath(path) if "\\" in path else PurePosixPath(path)
    parts = pure.parts[1:] if pure.anchor else pure.parts
    return ["/".join(parts[start:]) for start in range(len(parts)) if ".." not in parts[start:]]


def existing_end(folder: Path, path: str, match_basename: bool = False, suffixes: Sequence[str] = ("",)) -> Path | None:
    """The longest tail of a path that names a file in the folder, with one of the suffixes appended; None if none does.

    path: of any operating system. match_basename: the file's name alone may match, even if the path has folders.
    """
    ends = path_ends(path)
    names = (end + suffix for end in (ends if match_basename else ends[:-1] or ends) for suffix in suffixes)
    return next((Path(name) for name in names if (folder / name).is_file()), None)


def file_inside(folder: Path, name: str, from_elsewhere: bool = False) -> Path:
    """`folder`/`name`. Unusable if this path is outside of the folder.

    If the path is absolute, leads out of the folder or has backslashes, it may come from another computer. Then, and
    always with `from_elsewhere`, the longest tail of the path that is a file in `folder` is preferred (`existing_end`).
    """
    relative = Path(name)
    is_outside = relative.is_absolute() or ".." in relative.parts
    if (from_elsewhere or is_outside or "\\" in name) and (found := existing_end(folder, name)):
        return folder / found
    if is_outside:
        raise Unusable("its name leads out of the image folder")
    return folder / relative


NO_MASKS = "none"
_FOLDERS = ("images", "masks", "depths")
"""Settings that name folders, possibly within the scene's; NO_MASKS disables masks, and also depths."""


def placed_paths(settings: Mapping[str, Any], folder: Path, scene: Path) -> dict[str, str]:
    """Settings that are paths, made absolute relative to `folder`, except for folders of the scene."""

    def placed(name: str, path: str) -> str:
        if path == NO_MASKS or (name in _FOLDERS and (scene / path).is_dir()):
            return path
        return str((folder / path).resolve())

    given = {name: settings.get(name) for name in (*_FOLDERS, "split", "points", "init_from", "frozen")}
    return {name: placed(name, path) for name, path in given.items() if isinstance(path, str)}


@dataclass(frozen=True)
class SceneOptions:
    """Options for reading a scene.

    images, masks and depths: folders, looked for in the scene's folder first. max_size: limit of a view's longer
    side in pixels. downscale: views are this many times smaller than photographs. lens: "undistort" or "keep",
    which sets View.distortion; of spherical photographs, it is always set. points: a PLY instead of the dataset's
    points. min_track_length and max_point_error (pixels) filter COLMAP's points, crop filters all. origin:
    subtracted from geographic coordinates; by default the median of the cameras.
    """

    format: str = "auto"
    images: str | Path | None = None
    max_size: int | None = None
    downscale: float = 1
    lens: str = "undistort"
    masks: str | Path | None = None
    depths: str | Path | None = None
    points: str | Path | None = None
    min_track_length: int = 0
    max_point_error: float | None = None
    crop: Crop | None = None
    origin: tuple[float, float, float] | None = None

    @classmethod
    def of(cls, config: TrainConfig) -> Self:
        """Options from settings. Raises UsageError."""
        crop = None if config.crop is None else parse_crop(config.crop)
        return cls(
            format=config.format,
            images=config.images,
            max_size=config.max_size,
            downscale=config.downscale,
            lens=config.lens,
            masks=config.masks,
            depths=config.depths,
            points=config.points,
            min_track_length=config.min_track_length,
            max_point_error=config.max_point_error,
            crop=crop if config.crop_start else None,
        )

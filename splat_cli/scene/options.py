"""Options for reading a scene: photographs, masks and points."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from splat_cli.config import TrainConfig
from splat_cli.scene.crop import Crop, parse_crop

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

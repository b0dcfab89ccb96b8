"""Options of structure from motion."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_MODEL = "SIMPLE_RADIAL"


@dataclass(frozen=True)
class SfmOptions:
    """num_frames: extracted from a video. matcher: "exhaustive", "sequential" or "auto".

    camera_model: COLMAP's name; None: EQUIRECTANGULAR for panoramas (2:1, all around), otherwise DEFAULT_MODEL,
    or OPENCV for a camera of many photographs that it fits better.
    one_camera: whether all photographs of one size share a camera; by default, frames of a video and photographs with
    equal EXIF data do, and those of one size without EXIF data if they fit as well. masks: folder of masks; features
    are found in their white pixels, with invert_masks in their black ones.
    """

    num_frames: int = 200
    matcher: str = "auto"
    camera_model: str | None = None
    one_camera: bool | None = None
    seed: int = 0
    masks: Path | None = None
    invert_masks: bool = False

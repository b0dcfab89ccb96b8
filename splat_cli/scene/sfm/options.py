"""Options of structure from motion."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SfmOptions:
    """num_frames: extracted from a video. matcher: "exhaustive", "sequential" or "auto".

    camera_model: COLMAP's name. one_camera: whether all photographs share a camera; by default, frames of a video and
    photographs with equal EXIF data do.
    """

    num_frames: int = 200
    matcher: str = "auto"
    camera_model: str = "SIMPLE_RADIAL"
    one_camera: bool | None = None
    seed: int = 0

"""Options of structure from motion."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SfmOptions:
    """num_frames: extracted from a video. matching: pairs of photographs, "exhaustive", "sequential" or "auto".

    camera_model: COLMAP's name. one_camera: whether all photographs share a camera; by default the frames of a video
    do, and photographs that are of one camera by their EXIF data.
    """

    num_frames: int = 200
    matching: str = "auto"
    camera_model: str = "SIMPLE_RADIAL"
    one_camera: bool | None = None
    seed: int = 0

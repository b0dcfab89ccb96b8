"""Structure from motion of photographs or a video, with pycolmap (the optional extra `sfm`)."""

from collections.abc import Callable
from pathlib import Path

from splat_cli.scene.sfm.colmap_process import Counting
from splat_cli.scene.sfm.mapping import Mapping, map_photographs
from splat_cli.scene.sfm.photographs import collect_photographs, is_video
from splat_cli.scene.sfm.scene_folder import new_scene_folder
from splat_cli.scene.sfm.video import extract_frames

__all__ = ["Mapping", "is_video", "make_scene"]

_SHOWN = 5


def make_scene(
    source: Path, scene: Path, num_frames: int, matching: str, camera_model: str, one_camera: bool, seed: int,
    counting: Counting, say: Callable[[str], None],
) -> Mapping:  # fmt: skip
    """Fills `scene`, a new or empty folder, from a folder of photographs or a video; removes it after an error.

    num_frames: of a video. The other options are those of `map_photographs`. Raises UsageError and SceneError.
    """
    with new_scene_folder(scene):
        names, skipped = _photographs(source, scene / "images", num_frames, counting)
        if skipped:
            say(f"Left out {len(skipped)} photographs: {'; '.join(skipped[:_SHOWN])}")
        return map_photographs(scene, names, matching, camera_model, one_camera, seed, counting)


def _photographs(source: Path, images: Path, num_frames: int, counting: Counting) -> tuple[list[str], list[str]]:
    if not is_video(source):
        return collect_photographs(source, images)
    with counting("frames", num_frames) as count:
        return extract_frames(source, images, num_frames, count), []

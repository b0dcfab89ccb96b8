"""Scenes made of photographs or a video without camera poses, for `splat train`."""

from pathlib import Path

from splat_cli.console import Display
from splat_cli.run.storage.run_lock import numbered_folders
from splat_cli.scene.formats import has_dataset
from splat_cli.scene.sfm import SfmOptions, is_video, job_record, make_scene
from splat_cli.scene.sfm.photographs import is_photograph
from splat_cli.scene.sfm.scene_folder import can_be_made, is_made_of

SCENES = Path("scenes")
_DEPTHS = ("*", "*/*")


def lacks_poses(path: Path) -> bool:
    """Whether `path` is a video, or a folder of photographs that holds no dataset."""
    if is_video(path):
        return True
    if not path.is_dir() or has_dataset(path):
        return False
    return any(is_photograph(found) for depth in _DEPTHS for found in path.glob(depth))


def scene_from_photographs(source: Path, seed: int, display: Display) -> Path:
    """The scene of a video or a folder of photographs (in `images` where it has that): scenes/NAME, or NAME-2, ...

    Made by structure from motion where it is not there yet. Raises UsageError, SceneError and Interrupted.
    """
    photographs = source / "images" if (source / "images").is_dir() else source
    options = SfmOptions(seed=seed)
    record = job_record(photographs, options)
    name = source.resolve().stem if is_video(source) else source.resolve().name
    for scene in numbered_folders(SCENES / name):
        if is_made_of(scene, record):
            display.say(f"Camera poses: those of {scene}, estimated before")
            return scene
        if can_be_made(scene, record):
            break
    display.say(f"{source} has no camera poses: estimating them with COLMAP, in {scene}")
    found = make_scene(photographs, scene, options, display.counting, display.say)
    display.say(found.summary())
    if advice := found.advice():
        display.warn("\n".join(advice))
    return scene

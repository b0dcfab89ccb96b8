"""Scenes made from other inputs of `splat train`: zip files, and photographs or videos without camera poses."""

import json
import math
from contextlib import suppress
from pathlib import Path

from splat_cli.errors import SplatError, UsageError
from splat_cli.io.folder_lock import FolderInUse, wait_until_unlocked
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.storage.run_lock import numbered_folders
from splat_cli.scene.formats import has_dataset, has_photographs, nested_scenes, num_photographs
from splat_cli.scene.sfm import SfmOptions, is_video, job_record, make_scene
from splat_cli.scene.sfm.mapping import require_pycolmap
from splat_cli.scene.sfm.photographs import MIN_PHOTOGRAPHS
from splat_cli.scene.sfm.scene_folder import can_be_made, is_made_of
from splat_cli.scene.transforms import without_training_frames
from splat_cli.scene.zipped import is_zipped_scene, unzip_scene
from splat_cli.terminal.console import Display

SCENES = Path("scenes")
_ZIP_RECORD = "unzipped.json"


def lacks_poses(path: Path) -> bool:
    """Whether `path` is a video, or a folder of photographs that holds no dataset and no part of one.

    A folder with fewer photographs of its own than poses need lacks poses only if no scene is below it, except in
    `SCENES`, where scenes of photographs are made: the output of `splat demo` is a scene beside rendered pictures.
    """
    if is_video(path):
        return True
    if not path.is_dir() or has_dataset(path) or without_training_frames(path):
        return False
    if max(map(num_photographs, (path, path / "images"))) >= MIN_PHOTOGRAPHS:
        return True
    made, here = SCENES.resolve(), path.resolve()
    is_inside = made in (here, *here.parents)  # as what is unpacked there
    scenes = [scene for scene in nested_scenes(path) if is_inside or made not in scene.resolve().parents]
    return not scenes and has_photographs(path)


def prepared_scene(path: Path, seed: int, display: Display) -> Path:
    """The scene to train on: `path` itself, or one made in scenes/NAME of a zip file, photographs or a video.

    Raises UsageError, SceneError and Interrupted.
    """
    refuse_run(path)
    if is_zipped_scene(path):
        path = _unzipped(path, display)
    return _with_poses(path, seed, display) if lacks_poses(path) else path


def refuse_run(path: Path) -> None:
    """UsageError if `path` is the folder of a run that holds no scene: its pictures are no photographs."""
    if is_run(path) and not has_dataset(path):
        scene = RunDir(path).provenance().get("scene", "SCENE")
        raise UsageError(
            f"{path} is the folder of a run, not a scene: `splat train --resume {path}` continues it, "
            f"`splat train {scene}` starts anew"
        )


def _unzipped(path: Path, display: Display) -> Path:
    """The zip file's contents, in the first of scenes/NAME, NAME-2, ... that is free or holds them already."""
    stat = path.stat()
    record = json.dumps({"file": path.name, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns})
    folders = numbered_folders(SCENES / path.stem)
    scene = next(one for one in folders if not one.exists() or _is_unzipped(one, record))
    if _is_unzipped(scene, record):
        display.say(f"Scene: {scene}, unpacked before")
        return scene
    display.say(f"Unpacking {path} to {scene}")
    try:
        unzip_scene(path, scene, lambda folder: (folder / _ZIP_RECORD).write_text(record))
    except FileExistsError:  # by another process, as of a batch
        return _unzipped(path, display)
    return scene


def _is_unzipped(scene: Path, record: str) -> bool:
    """Whether a folder has the contents of the zip file of `record`."""
    return (scene / _ZIP_RECORD).is_file() and (scene / _ZIP_RECORD).read_text() == record


def _with_poses(source: Path, seed: int, display: Display) -> Path:
    """The scene of a video or a folder of photographs (in `images` where it has that), by structure from motion."""
    photographs = source / "images" if (source / "images").is_dir() else source
    options = SfmOptions(seed=seed)
    record = job_record(photographs, options)
    name = source.resolve().stem if is_video(source) else source.resolve().name
    folders = numbered_folders(SCENES / name)
    scene = next(one for one in folders if is_made_of(one, record) or can_be_made(one, record))
    if is_made_of(scene, record):
        display.say(f"Camera poses: those of {scene}, estimated before")
        return scene
    require_pycolmap()
    if has_dataset(source.parent):
        display.warn(f"{source.parent} has camera poses: `splat train {source.parent}` would use them")
    display.say(f"{source} has no camera poses: estimating them with COLMAP, in {scene}")
    try:
        found = make_scene(photographs, scene, options, display.counting, display.say)
    except FolderInUse:  # by another process, as of a batch, for these photographs or others of the same name
        wait_until_unlocked(scene, math.inf, lambda: False, display.say)
        return _with_poses(source, seed, display)
    except SplatError:
        with suppress(OSError):  # it holds other scenes
            SCENES.rmdir()
        raise
    display.say(found.summary())
    if advice := found.advice():
        display.warn("\n".join(advice))
    return scene

"""Scenes for `splat train` made from zip files, and from photographs or videos without camera poses."""

import dataclasses
import itertools
import json
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

from splat_cli.commands.photo_checks import check_photographs
from splat_cli.config import TrainConfig
from splat_cli.errors import SceneError, SplatError, UsageError, quoted
from splat_cli.io.folder_lock import FolderInUse, wait_until_unlocked
from splat_cli.run.storage.find_run import is_run, numbered_folders
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.dataset import NO_MASKS, SceneOptions
from splat_cli.scene.formats import has_dataset, has_photographs, nested_scenes, num_photographs, scene_folder
from splat_cli.scene.images.locate import given_image_folder
from splat_cli.scene.photograph import import_pycolmap
from splat_cli.scene.read import read_scene
from splat_cli.scene.readers.transforms import without_training_frames
from splat_cli.scene.sfm import (
    Mapping,
    Placed,
    SfmOptions,
    can_be_made,
    find_masks,
    has_files_of,
    is_made_of,
    is_video,
    job_record,
    make_scene,
)
from splat_cli.scene.sfm.mapping import require_pycolmap
from splat_cli.scene.sfm.photographs import MIN_PHOTOGRAPHS, source_files
from splat_cli.scene.zipped import is_zipped_scene, unzip_scene
from splat_cli.terminal.console import Display
from splat_cli.terminal.interrupt import Interrupted

SCENES = Path("scenes")
_ZIP_RECORD = "unzipped.json"
_MAX_CHECKED = 500  # photographs that are checked before their poses are estimated: half a minute


def lacks_poses(path: Path) -> bool:
    """Whether `path` is a video, or a folder of photographs that is not a dataset or part of one.

    A folder with fewer photographs than `MIN_PHOTOGRAPHS` must also have no scene below it: the output of `splat demo`
    is a scene next to rendered pictures. Scenes in `SCENES` do not count, because they are made from photographs.
    """
    if is_video(path):
        return True
    if not path.is_dir() or has_dataset(path) or without_training_frames(path):
        return False
    if max(map(num_photographs, (path, path / "images"))) >= MIN_PHOTOGRAPHS:
        return True
    made, here = SCENES.resolve(), path.resolve()
    is_inside = made in (here, *here.parents)  # like unpacked zip files
    scenes = [scene for scene in nested_scenes(path) if is_inside or made not in scene.resolve().parents]
    return not scenes and has_photographs(path)


def prepared_scene(
    path: Path, config: TrainConfig, display: Display, watch: Callable[[Placed], None] | None = None
) -> tuple[Path, TrainConfig]:
    """The scene to train on, and the settings for it.

    The scene is `path` itself, or is made in scenes/NAME from a zip file, photographs or a video. A scene made from the
    photographs of --images and masks of --masks stores them in its own folders: the settings are then None. watch: see
    `make_scene`. Raises UsageError, SceneError and Interrupted.
    """
    refuse_run(path)
    if is_zipped_scene(path):
        path = _unzipped(path, display)
    photographs = _without_poses(path, config)
    if photographs is None:
        return path, config
    masks = NO_MASKS if config.masks == NO_MASKS else None
    prepared = _with_poses(path, photographs, config, display, watch)
    return prepared, dataclasses.replace(config, images=None, masks=masks, invert_masks=False)


def is_scene_of(scene: Path, source: Path, config: TrainConfig) -> bool:
    """Whether `scene` is `source` or was made from it as it is now; True if `source` is not, or no longer, a scene."""
    if not source.exists():
        return True
    if is_zipped_scene(source):
        record = _zip_record(source)
        unpacked = itertools.takewhile(Path.exists, numbered_folders(scene.parent / source.stem))
        return any(_is_unzipped(one, record) and is_scene_of(scene, one, config) for one in unpacked)
    if (photographs := _without_poses(source, config)) is not None:
        return has_files_of(scene, job_record(photographs, _sfm_options(source, photographs, config)))
    try:
        given = scene_folder(source, config.format)[0].resolve()
    except SceneError:
        return True
    return scene == given or not has_dataset(given)


def _without_poses(path: Path, config: TrainConfig) -> Path | None:
    """The video, or the folder of photographs, whose poses are to be estimated; None for a scene with poses."""
    photographs = None if config.images is None or is_video(path) else given_image_folder(path, config.images)
    is_empty = photographs is not None and path.is_dir() and not has_dataset(path) and has_photographs(photographs)
    if not (is_empty or lacks_poses(path)):
        return None
    return photographs or (path / "images" if (path / "images").is_dir() else path)


def refuse_run(path: Path) -> None:
    """UsageError if `path` is the folder of a run without a scene: its pictures are renders."""
    if is_run(path) and not has_dataset(path):
        scene = RunDir(path).provenance().get("scene", "SCENE")
        raise UsageError(
            f"{path} is the folder of a run, not a scene: `splat train --resume {quoted(path)}` continues it, "
            f"`splat train {quoted(scene)}` starts a new run"
        )


def _unzipped(path: Path, display: Display) -> Path:
    """Folder of the zip file's contents: the first of scenes/NAME, NAME-2, ... that is free or holds them."""
    record = _zip_record(path)
    folders = numbered_folders(SCENES / path.stem)
    scene = next(one for one in folders if not one.exists() or _is_unzipped(one, record))
    if _is_unzipped(scene, record):
        display.say(f"Scene: {scene}, unpacked before")
        return scene
    display.say(f"Unpacking {path} to {scene}")
    try:
        unzip_scene(path, scene, lambda folder: (folder / _ZIP_RECORD).write_text(record))
    except FileExistsError:  # by another process, such as a job of a batch
        return _unzipped(path, display)
    return scene


def _zip_record(path: Path) -> str:
    stat = path.stat()
    return json.dumps({"file": path.name, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns})


def _is_unzipped(scene: Path, record: str) -> bool:
    """Whether a folder has the contents of the zip file described by `record`."""
    return (scene / _ZIP_RECORD).is_file() and (scene / _ZIP_RECORD).read_text() == record


def _sfm_options(source: Path, photographs: Path, config: TrainConfig) -> SfmOptions:
    masks = find_masks([source, photographs], config.masks)
    return SfmOptions(seed=config.seed, masks=masks, invert_masks=config.invert_masks)


def _with_poses(
    source: Path,
    photographs: Path,
    config: TrainConfig,
    display: Display,
    watch: Callable[[Placed], None] | None,
) -> Path:
    """The scene of a video or of a folder of photographs, by structure from motion."""
    options = _sfm_options(source, photographs, config)
    record = job_record(photographs, options)
    name = source.resolve().stem if is_video(source) else source.resolve().name
    folders = numbered_folders(SCENES / name)
    scene = next(one for one in folders if is_made_of(one, record) or can_be_made(one, record))
    if is_made_of(scene, record):
        display.say(f"Camera poses: from {scene}, estimated before")
        return scene
    _refuse_photographs_with_poses(source)
    require_pycolmap()
    with suppress(ImportError):  # the check looks without it, too
        import_pycolmap()  # in the main thread, before that of `_say_advice`
    display.say(f"{source} has no camera poses: estimating them with COLMAP, in {scene}")
    make = partial(
        make_scene, photographs, scene, options, display.counting, display.say, config.allow_implausible, watch
    )
    try:
        found = make() if is_video(source) else _with_advice(make, photographs, display)
    except FolderInUse:  # another job of a batch uses these photographs, or others with this name
        wait_until_unlocked(scene, math.inf, lambda: False, display.say)
        return _with_poses(source, photographs, config, display, watch)
    except SplatError:
        with suppress(OSError):  # the folder holds other scenes
            SCENES.rmdir()
        raise
    display.say(found.summary())
    if advice := found.advice():
        display.warn("\n".join(advice))
    return scene


def _with_advice(make: Callable[[], Mapping], photographs: Path, display: Display) -> Mapping:
    """The result of `make`, while a thread checks the photographs: COLMAP's mapping mostly uses one core."""
    interrupted = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        checked = pool.submit(_say_advice, photographs, display, interrupted)
        try:
            found = make()
        except Interrupted:
            interrupted.set()
            raise
    checked.result()
    return found


def _say_advice(photographs: Path, display: Display, interrupted: threading.Event) -> None:
    """Print two lines of `splat check` about the photographs; nothing if there are too many or too few.

    Only COLMAP's progress bar is shown.
    """
    paths = source_files(photographs)
    if len(paths) > _MAX_CHECKED:
        return

    def count(num: int) -> None:
        if interrupted.is_set():
            raise Interrupted("Interrupted")

    with suppress(SceneError):  # too few can be decoded: said with the reasons later
        checked = check_photographs(photographs, paths, lambda *_: nullcontext(count))
        found = "; ".join(f"{one.topic}: {one.text}" for one in checked.problems)
        display.say(
            f"Photographs: {found or 'no problem found'} (`splat check {quoted(photographs)}` shows more)\n"
            f"Duration with default settings: {checked.duration}"
        )


def _refuse_photographs_with_poses(source: Path) -> None:
    """UsageError if the photographs in `source` belong to a dataset in the folder above."""
    above = source.resolve().parent
    if not (source.is_dir() and has_dataset(above)):
        return
    try:
        read_scene(above, SceneOptions(images=source.resolve()))
    except SceneError:  # the dataset lists other photographs
        return
    shown = above if source == Path() else source.parent
    name = source.resolve().name
    images = "" if name == "images" else f" --images {name}"
    raise UsageError(
        f"{shown} has camera poses of these photographs: `splat train {quoted(shown)}{images}` uses them, "
        f"`splat sfm {quoted(source)} -o SCENE` estimates others"
    )

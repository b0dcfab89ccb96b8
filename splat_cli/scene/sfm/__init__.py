"""Structure from motion of photographs or a video, with pycolmap (the optional extra `sfm`)."""

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from splat_cli.errors import DiskError, SceneError, UsageError, quoted
from splat_cli.io.files import is_leftover, remove_leftovers, replacing
from splat_cli.io.folder_lock import LOCK_NAME, locked_folder
from splat_cli.io.image_files import open_image
from splat_cli.io.json_input import parse_json, read_json_text
from splat_cli.scene.colmap import UNREGISTERED
from splat_cli.scene.colmap.model import SPHERE
from splat_cli.scene.plausibility import are_panoramas, refuse_photographs
from splat_cli.scene.read import read_scene
from splat_cli.scene.sfm.colmap_database import CONFIRMED, DATABASE, SEPARATE
from splat_cli.scene.sfm.colmap_process import Placed
from splat_cli.scene.sfm.colmap_worker import MODELS
from splat_cli.scene.sfm.mapping import DEFAULT_MODEL, Mapping, SfmOptions, map_photographs, require_pycolmap
from splat_cli.scene.sfm.photographs import (
    collect_masks,
    collect_photographs,
    find_masks,
    is_video,
    lost_colors,
    mask_files,
    source_files,
)
from splat_cli.scene.sfm.video import extract_frames
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import Counting
from splat_cli.terminal.interrupt import Interrupted

__all__ = [
    "Mapping",
    "Placed",
    "SfmOptions",
    "can_be_made",
    "find_masks",
    "has_files_of",
    "is_made_of",
    "is_video",
    "job_record",
    "make_scene",
    "new_scene_folder",
    "rough_name",
    "rough_scene",
]

_MARKER, _RECORD = ".unfinished", "sfm.json"
_DATABASES = (DATABASE, SEPARATE, CONFIRMED)
_CONTENTS = (
    "images",
    "masks",
    "sparse",
    *(f"{name}{end}" for name in _DATABASES for end in ("", "-shm", "-wal")),
    *(Path(name).with_suffix(MODELS).name for name in _DATABASES),
    UNREGISTERED,
)
_SHOWN = 5
_ROUGH_SIDE, _ROUGH_QUALITY = 800, 92  # longer side in pixels; of JPEG


def make_scene(
    source: Path,
    scene: Path,
    options: SfmOptions,
    counting: Counting,
    say: Callable[[str], None],
    allow_implausible: bool = False,
    watch: Callable[[Placed], None] | None = None,
) -> Mapping:
    """Create `scene`, a new or empty folder, from a folder of photographs or a video; removed after a UsageError.

    Continues a call for the same files and options that was interrupted or failed in another way. watch: called with
    cameras and points while photographs are placed. UsageError;
    SceneError, for photographs of another kind than the camera model only without `allow_implausible`; SplatError if
    COLMAP crashes; after Ctrl-C or SIGTERM, Interrupted.
    """
    require_pycolmap()
    record = job_record(source, options)
    if options.one_camera is None and is_video(source):
        options = dataclasses.replace(options, one_camera=True)
    try:
        with new_scene_folder(scene, record):
            names = _photographs(source, scene, options, counting, say)
            paths = [scene / "images" / name for name in names]
            if options.camera_model is None and are_panoramas(paths):
                options = dataclasses.replace(options, camera_model=SPHERE)
                say("360-degree photographs: estimating the poses of whole spheres")
            elif not allow_implausible:
                refuse_photographs(paths, options.camera_model or "")
            if options.masks is not None:
                num_masks = collect_masks(options.masks, options.invert_masks, scene, names)
                say(f"Masks: {num_masks} of {len(names)} photographs, from {options.masks}")
            return map_photographs(scene, names, options, counting, is_video(source), watch=watch)
    except KeyboardInterrupt as error:
        raise Interrupted("Interrupted; the same command again continues", error) from None


def rough_scene(
    photographs: Sequence[Path],
    pairs: Sequence[tuple[int, int]],
    folder: Path,
    counting: Counting,
    are_enlarged: bool,
) -> tuple[Scene, Mapping] | None:
    """The scene of small copies of photographs, in `folder`: rough poses, in about a tenth of the time of `make_scene`.

    pairs: photographs to match, by number. Views have the names of `rough_name`. are_enlarged: whether features are
    also searched at twice the size of the copies, which takes three times as long and finds more. None if no two
    photographs fit together.
    """
    require_pycolmap()
    names = [rough_name(number) for number in range(len(photographs))]
    (folder / "images").mkdir(parents=True)
    for path, name in zip(photographs, names, strict=True):
        with open_image(path) as image:
            image.draft("RGB", (_ROUGH_SIDE, _ROUGH_SIDE))
            small, exif = image.convert("RGB"), _exif(image)
        small.thumbnail((_ROUGH_SIDE, _ROUGH_SIDE))
        small.save(folder / "images" / name, quality=_ROUGH_QUALITY, exif=exif)
    options = SfmOptions(camera_model=SPHERE if are_panoramas(photographs) else None)
    try:
        listed = [(names[i], names[j]) for i, j in pairs]
        mapping = map_photographs(folder, names, options, counting, pairs=listed, are_enlarged=are_enlarged)
        return read_scene(folder), mapping
    except SceneError:
        return None


def rough_name(number: int) -> str:
    """Name of the small copy of a photograph."""
    return f"{number:06d}.jpg"


def _exif(image: Image.Image) -> bytes:
    """EXIF data of a photograph: its focal length, and cameras that photographs share. Empty if damaged."""
    try:
        return image.getexif().tobytes()
    except Exception:  # Pillow's parser raises exceptions of any type
        return b""


def _photographs(
    source: Path, scene: Path, options: SfmOptions, counting: Counting, say: Callable[[str], None]
) -> list[str]:
    """Names of the photographs, or of the video's frames, in scene/images."""
    images = scene / "images"
    if is_video(source):
        if (scene / DATABASE).is_file():  # an interrupted call has extracted all of them
            return sorted(path.name for path in images.glob("frame_*.jpg"))
        with counting("frames", options.num_frames) as count:
            return extract_frames(source, images, options.num_frames, count, say)
    names, skipped = collect_photographs(source, images, options.masks)
    if skipped:
        say(f"Left out {len(skipped)} of the photographs: {'; '.join(skipped[:_SHOWN])}")
    for remark in lost_colors(source, options.masks):
        say(remark)
    return names


def job_record(source: Path, options: SfmOptions) -> dict[str, object]:
    """Everything that determines the result, as JSON: files with sizes and times, options."""
    files = {
        os.path.relpath(path, source.parent): [path.stat().st_size, path.stat().st_mtime_ns]
        for path in [*source_files(source, options.masks), *(mask_files(options.masks) if options.masks else ())]
    }
    record = dataclasses.asdict(options)
    record["camera_model"] = options.camera_model or DEFAULT_MODEL
    masks, inverted = record.pop("masks"), record.pop("invert_masks")  # left out if not given: older records lack them
    return {"files": files, **record} | ({"masks": str(masks), "invert_masks": inverted} if masks else {})


@contextmanager
def new_scene_folder(scene: Path, record: dict[str, object]) -> Iterator[None]:
    """Create the folder for `record`; removed if photographs make no scene (UsageError), kept after other errors.

    Features and matches of hours survive a full disk, a crash of COLMAP and Ctrl-C: contents of such a call are kept if
    its record is equal, else removed. UsageError if `scene` is not an empty folder, cannot be written, or is locked by
    another process.
    """
    with locked_folder(scene, make=True):
        remove_leftovers(scene)
        if _json_of(scene / _MARKER) != record:
            _remove_unfinished(scene)
            with replacing(scene / _MARKER) as temporary:
                temporary.write_text(json.dumps(record))
        try:
            yield
        except UsageError as error:
            if not isinstance(error, DiskError):
                _remove(scene, {_MARKER, *_CONTENTS})
            raise
        (scene / _MARKER).rename(scene / _RECORD)


def is_made_of(scene: Path, record: dict[str, object]) -> bool:
    """Whether the folder contains the finished scene of `record`."""
    return _json_of(scene / _RECORD) == record


def has_files_of(scene: Path, record: dict[str, object]) -> bool:
    """Whether the folder contains the finished scene of the photographs or video of `record`, with any options."""
    made = _json_of(scene / _RECORD)
    return isinstance(made, dict) and made.get("files") == record["files"]


def can_be_made(scene: Path, record: dict[str, object]) -> bool:
    """Whether the folder is missing or empty, or belongs to an interrupted command with the same record."""
    return not scene.exists() or _json_of(scene / _MARKER) == record or (scene.is_dir() and not _names(scene))


def _json_of(path: Path) -> object:
    """JSON content of a file; None if it cannot be read."""
    try:
        return parse_json(read_json_text(path))
    except (OSError, ValueError):
        return None


def _names(scene: Path) -> set[str]:
    """Names of the entries of the folder, except its lock and temporary files."""
    return {path.name for path in scene.iterdir() if not is_leftover(path)} - {LOCK_NAME}


def _remove_unfinished(scene: Path) -> None:
    found = _names(scene)
    if _RECORD in found:  # perhaps by a call that was interrupted while it printed the result
        raise UsageError(
            f"{scene} holds a finished scene: `splat train {quoted(scene)}` uses it; or name another folder"
        )
    if found and not (_MARKER in found and found <= {_MARKER, *_CONTENTS}):
        raise UsageError(f"{scene} is not an empty folder: name another one for the scene, or remove it first")
    _remove(scene, found - {_MARKER})


def _remove(scene: Path, names: Set[str]) -> None:
    """Remove entries of the folder, if they exist; other files in it belong to the user."""
    for path in (scene / name for name in names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

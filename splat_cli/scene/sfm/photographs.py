"""Hard links to, or copies of, the input photographs in the folder of a scene."""

import os
import shutil
from pathlib import Path

from splat_cli.errors import UsageError
from splat_cli.image_files import PHOTOGRAPH_SUFFIXES
from splat_cli.scene.images.decode import image_size

_VIDEOS = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v")
MIN_PHOTOGRAPHS = 3


def is_video(path: Path) -> bool:
    """Whether `path` is a file with a video's suffix."""
    return path.is_file() and path.suffix.lower() in _VIDEOS


def is_photograph(path: Path) -> bool:
    """Whether `path` is a file with a photograph's suffix."""
    return path.suffix.lower() in PHOTOGRAPH_SUFFIXES and path.is_file()


def source_files(source: Path) -> list[Path]:
    """A video itself, or the photographs in a folder, however deep, sorted. UsageError where it is neither."""
    if is_video(source):
        return [source]
    if not source.is_dir():
        raise UsageError(f"{source} is neither a folder of photographs nor a video ({', '.join(_VIDEOS)})")
    return sorted(filter(is_photograph, source.rglob("*")))


def collect_photographs(source: Path, images: Path) -> tuple[list[str], list[str]]:
    """Puts the photographs in a folder, however deep, into `images`: as hard links, or copies on another disk.

    Returns their names, and "name: reason" of those that are none. UsageError where fewer than three are left.
    """
    names, skipped = [], []
    for path in source_files(source):
        name = str(path.relative_to(source))
        try:
            image_size(path)
        except ValueError as error:
            skipped.append(f"{name}: {error}")
            continue
        _link(path, images / name)
        names.append(name)
    if len(names) < MIN_PHOTOGRAPHS:
        left_out = f" ({'; '.join(skipped[:3])})" if skipped else ""
        raise UsageError(
            f"{source} holds {len(names)} photographs{left_out}; at least {MIN_PHOTOGRAPHS} that overlap are needed: "
            f"give a folder with {', '.join(PHOTOGRAPH_SUFFIXES)} files"
        )
    return names, skipped


def _link(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:
        shutil.copy2(path, target)

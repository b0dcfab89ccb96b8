"""Input photographs of structure from motion, linked or copied into the folder of a scene, and their masks."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image

from splat_cli.errors import UsageError, reason_of
from splat_cli.io.files import is_full, replacing, write_error
from splat_cli.io.image_files import PHOTOGRAPH_SUFFIXES, open_image
from splat_cli.scene.dataset import NO_MASKS
from splat_cli.scene.images.decode import TURNED, decode_mask, has_alpha, ignored_by, image_size
from splat_cli.terminal.console import first_of

_VIDEOS = (".mp4", ".mov", ".mkv", ".avi", ".webm", ".m4v")
MIN_PHOTOGRAPHS = 3
_CONVERTED = (".heic", ".heif", ".avif", ".webp")
"""Formats that COLMAP does not read."""
_QUALITY = 95


def is_video(path: Path) -> bool:
    """Whether `path` is a file with a video's suffix."""
    return path.is_file() and path.suffix.lower() in _VIDEOS


def is_photograph(path: Path) -> bool:
    """Whether `path` is a file with a photograph's suffix."""
    return path.suffix.lower() in PHOTOGRAPH_SUFFIXES and path.is_file()


def source_files(source: Path, masks: Path | None = None) -> list[Path]:
    """The video, or the photographs in a folder and its subfolders, sorted. UsageError for other paths.

    masks: a folder to leave out.
    """
    if is_video(source):
        return [source]
    if not source.is_dir():
        raise UsageError(f"{source} is neither a folder of photographs nor a video ({', '.join(_VIDEOS)})")
    return sorted(path for path in filter(is_photograph, source.rglob("*")) if masks not in path.parents)


def collect_photographs(source: Path, images: Path, masks: Path | None = None) -> tuple[list[str], list[str]]:
    """Link the photographs of a folder and its subfolders into `images`, or copy them from another disk.

    masks: a folder to leave out.
    Returns their names, and "name: reason" of skipped files. UsageError if fewer than three are left.
    """
    names, skipped = [], []
    paths = source_files(source, masks)
    taken = {path.relative_to(source).as_posix().lower() for path in paths}
    for path in paths:
        name = _utf8_name(path.relative_to(source).as_posix())
        try:
            image_size(path)
        except ValueError as error:
            skipped.append(f"{name}: {error}")
            continue
        if path.suffix.lower() in _CONVERTED:
            found, name = name, _converted_name(Path(name), ".png" if has_alpha(path) else ".jpg", taken)
            if reason := _convert(path, images / name):
                skipped.append(f"{found}: {reason}")
                continue
        else:
            _link(path, images / name)
        names.append(name)
    if len(names) < MIN_PHOTOGRAPHS:
        left_out = f" ({'; '.join(skipped[:3])})" if skipped else ""
        raise UsageError(
            f"too few photographs in {source}: {len(names)}{left_out}; at least {MIN_PHOTOGRAPHS} that overlap are "
            f"needed ({', '.join(PHOTOGRAPH_SUFFIXES)})"
        )
    return names, skipped


def lost_colors(source: Path, masks: Path | None = None) -> Iterator[str]:
    """Remarks on colours that the copies of photographs in formats that COLMAP does not read no longer state."""
    paths = source_files(source, masks)
    return ignored_colors([path for path in paths if path.suffix.lower() in _CONVERTED], len(paths))


def ignored_colors(paths: Sequence[Path], num: int) -> Iterator[str]:
    """Remarks on colours that some of `num` photographs state and that are not applied; see `ignored_by`."""
    names: dict[str, list[str]] = {}
    for path in paths:
        with suppress(ValueError):  # damaged: skipped by `collect_photographs`
            for remark in ignored_by(path):
                if remark is not TURNED:  # copies keep EXIF data
                    names.setdefault(remark, []).append(path.name)
    for remark, found in names.items():
        yield f"{len(found):,} of {num:,} photographs {remark} ({first_of(found)})"


def _utf8_name(name: str) -> str:
    """The name with bytes that are not UTF-8 written as %E9, because COLMAP refuses these bytes."""
    return "".join(f"%{ord(c) & 0xFF:02X}" if "\udc80" <= c <= "\udcff" else c for c in name)


def _converted_name(name: Path, suffix: str, taken: set[str]) -> str:
    """NAME.jpg, or NAME.heic.jpg if that name is taken, with the suffix; adds it to the taken names."""
    short = name.with_suffix(suffix).as_posix()
    chosen = short if short.lower() not in taken else f"{name.as_posix()}{suffix}"
    taken.add(chosen.lower())
    return chosen


def _convert(path: Path, target: Path) -> str | None:
    """Write the photograph as JPEG, or with its transparency as PNG, with EXIF data and colour profile.

    Returns the reason if it cannot be decoded, else None.
    A file that an interrupted call has written is kept.
    """
    if target.is_file():
        return None
    try:
        with open_image(path) as image:
            is_jpeg = target.suffix == ".jpg"
            colors = image.convert("RGB" if is_jpeg else "RGBA")
            said: dict[str, Any] = {"exif": image.getexif().tobytes(), "icc_profile": image.info.get("icc_profile")}
    except Exception as error:  # decoders raise exceptions of any type on broken files
        return f"cannot be decoded ({reason_of(error)})"
    with replacing(target) as temporary:
        options = {"format": "JPEG", "quality": _QUALITY, "subsampling": 0} if is_jpeg else {"format": "PNG"}
        colors.save(temporary, **said, **options)
    return None


def _link(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(path, target)
    except OSError:
        try:
            shutil.copy2(path, target)
        except OSError as error:
            raise (write_error(target, error) if is_full(error) else error) from error  # copy2 names the source


def find_masks(roots: Sequence[Path], masks: str | Path | None) -> Path | None:
    """The folder of --masks, in one of `roots` or from the current folder.

    By default, ROOT/masks if it holds PNG files. None: no masks, as with "none". UsageError if the folder is missing.
    """
    if masks == NO_MASKS:
        return None
    if masks is None:
        return next((root / "masks" for root in roots if mask_files(root / "masks")), None)
    found = next(filter(Path.is_dir, [*(root / masks for root in roots), Path(masks)]), None)
    if found is None:
        raise UsageError(f"there is no folder {masks}; name the folder of the masks with --masks DIR")
    return found


def mask_files(masks: Path) -> list[Path]:
    """The files of a folder of masks, sorted."""
    return sorted(masks.rglob("*.png"))


def collect_masks(masks: Path, inverted: bool, scene: Path, names: Sequence[str]) -> int:
    """Write the masks of the photographs `names` in scene/images to scene/masks/NAME.png; returns their number.

    White counts; inverted: black does in `masks`. UsageError if no photograph has one, or a mask is damaged.
    """
    num = 0
    for name in names:
        candidates = (masks / f"{name}.png", (masks / name).with_suffix(".png"))
        path = next(filter(Path.is_file, candidates), None)
        if path is None:
            continue
        photograph = scene / "images" / name
        try:
            mask = decode_mask(path, photograph, image_size(photograph), inverted)
        except ValueError as error:
            raise UsageError(f"{name}: {error}; correct it, or give --masks none") from error
        target = scene / "masks" / f"{name}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            Image.fromarray(mask).save(temporary, "PNG")
        num += 1
    if not num:
        raise UsageError(
            f"{masks} has no mask for any of the {len(names)} photographs: name them like these, such as "
            f"{names[0]}.png, or give --masks none"
        )
    return num

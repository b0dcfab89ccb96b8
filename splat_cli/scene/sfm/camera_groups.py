"""Groups of photographs from the same camera by EXIF data; each shares focal length and distortion."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from PIL.ExifTags import IFD, Base

from splat_cli.image_files import open_image

_LENS = (Base.LensMake, Base.LensModel, Base.FocalLength, Base.FocalLengthIn35mmFilm, Base.DigitalZoomRatio)
"""EXIF tags that distinguish the lenses of a phone, and settings of a zoom lens."""


def camera_groups(images: Path, names: Sequence[str]) -> list[list[str]]:
    """Groups of two or more names with equal make, model, lens, focal length and size in pixels, sorted.

    Photographs without a camera model in their EXIF data are in no group.
    """
    groups = defaultdict(list)
    for name in sorted(names):
        key = _camera(images / name)
        if key is not None:
            groups[key].append(name)
    return [group for group in groups.values() if len(group) > 1]


def _camera(path: Path) -> tuple[str, ...] | None:
    """Key of the camera that took a photograph; None if unknown."""
    try:
        with open_image(path) as image:
            size, exif = image.size, image.getexif()
        details = exif.get_ifd(IFD.Exif)
    except Exception:  # damaged EXIF data: exceptions of any type
        return None
    model = _text(exif.get(Base.Model))
    if not model:
        return None
    return (_text(exif.get(Base.Make)), model, *(_text(details.get(tag)) for tag in _LENS), *map(str, size))


def _text(value: object) -> str:
    return str(value or "").strip("\0 ")

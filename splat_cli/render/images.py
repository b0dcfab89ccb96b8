"""Rendered images as 8-bit arrays and as files that carry a key of their contents."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, PngImagePlugin

from splat_cli.errors import UsageError
from splat_cli.io.files import replacing
from splat_cli.io.image_files import PHOTOGRAPH_SUFFIXES, open_image
from splat_cli.scene.dataset import folded

_TEXT, _DESCRIPTION = "splat", 270
"""Name of the PNG text chunk with the key; TIFF files have it in the tag ImageDescription."""


def background_color(name: str) -> tuple[float, float, float]:
    """Background of renders, RGB, 0 to 1: white for runs trained on white, black for others."""
    return (1.0, 1.0, 1.0) if name == "white" else (0.0, 0.0, 0.0)


def to_8bit(image: np.ndarray) -> np.ndarray:
    """Floats of any shape as uint8: times 255, rounded and clamped; NaN becomes 0."""
    return np.rint(np.nan_to_num(np.clip(image, 0.0, 1.0)) * 255).astype(np.uint8)


def save_png(path: Path, pixels: np.ndarray, key: str = "") -> None:
    """Write uint8 [H, W], [H, W, 3] or [H, W, 4], or uint16 [H, W], as a PNG file that carries `key`."""
    info = PngImagePlugin.PngInfo()
    info.add_text(_TEXT, key)
    with replacing(path) as temporary:
        Image.fromarray(pixels).save(temporary, format="PNG", compress_level=4, pnginfo=info)


def save_tiff(path: Path, pixels: np.ndarray, key: str) -> None:
    """Write float32 [H, W] as a TIFF file that carries `key`."""
    with replacing(path) as temporary:
        Image.fromarray(pixels).save(
            temporary, format="TIFF", tiffinfo={_DESCRIPTION: key}, compression="tiff_adobe_deflate"
        )


def key_of(path: Path) -> str | None:
    """The key in an image file; None if the file is missing or from another program."""
    try:
        with open_image(path) as image:
            found = image.tag_v2.get(_DESCRIPTION) if image.format == "TIFF" else image.info.get(_TEXT)  # type: ignore[attr-defined]
    except Exception:  # decoders raise exceptions of any type on broken files
        return None
    return found if isinstance(found, str) else None


def refuse_foreign(paths: Iterable[Path]) -> None:
    """UsageError if one of the files is an image of another program, such as a photograph, or new and beside one.

    Beside a photograph of its name, a picture would be taken for another photograph. Earlier pictures may have copies.
    """
    for path in paths:
        beside = {path.with_suffix(kind) for suffix in PHOTOGRAPH_SUFFIXES for kind in (suffix, suffix.upper())}
        for other in [path] if path.exists() else sorted(beside):
            if other.exists() and key_of(other) is None and _is_image(other):
                would = "be overwritten" if other == path else f"have {path.name} beside it, as another photograph"
                raise UsageError(f"{other} was not written by splat and would {would}: name another folder")


def _is_image(path: Path) -> bool:
    """Whether the file can be opened as an image; damaged files may be replaced."""
    try:
        open_image(path).close()
    except Exception:  # exceptions of any type
        return False
    return True


def save_animation(path: Path, frames: Sequence[np.ndarray], frames_per_second: float) -> None:
    """Write uint8 [H, W, 3] frames as an animated WebP that repeats."""
    images = [Image.fromarray(frame) for frame in frames]
    duration = round(1000 / frames_per_second)
    with replacing(path) as temporary:
        images[0].save(
            temporary, format="WebP", save_all=True, append_images=images[1:], duration=duration, loop=0, quality=85
        )


def png_names(names: Sequence[str], folders: Collection[str] = ()) -> list[PurePosixPath]:
    """A unique relative PNG path per photograph, numbered if names would meet on some file system.

    The suffix is replaced. Parts that lead out of the folder are dropped. folders: of other files of the same names.
    """
    safe = [PurePosixPath(*(part for part in PurePosixPath(name).parts if part.strip("./"))) for name in names]
    short = [name.with_suffix(".png") if name.name else PurePosixPath(f"{i}.png") for i, name in enumerate(safe)]
    are_apart = len({folded(str(name)) for name in short}) == len(short)
    if are_apart and not any(folded(name.parts[0]) in folders for name in short):
        return short
    return [name.with_name(f"{i:05d}-{name.name}") for i, name in enumerate(short)]

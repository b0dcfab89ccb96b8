"""Rendered images as 8-bit pictures, in memory and on disk."""

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, PngImagePlugin

from splat_cli.files import replacing


def background_color(name: str) -> tuple[float, float, float]:
    """What stands behind the splats in a picture, 0 to 1: white for a run trained on white, black for the others."""
    return (1.0, 1.0, 1.0) if name == "white" else (0.0, 0.0, 0.0)


def to_8bit(image: np.ndarray) -> np.ndarray:
    """Floats of any shape, 0 to 1 and beyond -> uint8, clamped and rounded; NaN becomes 0."""
    return np.rint(np.nan_to_num(np.clip(image, 0.0, 1.0)) * 255).astype(np.uint8)


def save_png(path: Path, pixels: np.ndarray, texts: Mapping[str, str] | None = None) -> None:
    """Writes uint8 [H, W], [H, W, 3] or [H, W, 4], or uint16 [H, W], as a PNG file with `texts` by their keywords."""
    info = PngImagePlugin.PngInfo()
    for keyword, text in (texts or {}).items():
        info.add_text(keyword, text)
    with replacing(path) as beside:
        Image.fromarray(pixels).save(beside, format="PNG", compress_level=4, pnginfo=info)


def save_animation(path: Path, frames: Sequence[np.ndarray], frames_per_second: float) -> None:
    """Writes uint8 [H, W, 3] frames as an animated WebP that repeats."""
    pictures = [Image.fromarray(frame) for frame in frames]
    duration = round(1000 / frames_per_second)
    with replacing(path) as beside:
        pictures[0].save(
            beside, format="WebP", save_all=True, append_images=pictures[1:], duration=duration, loop=0, quality=85
        )


def png_names(names: Sequence[str]) -> list[PurePosixPath]:
    """A PNG file's relative path for each photograph's name: its own with another ending, where that stays unique.

    Parts that would lead out of the folder are dropped.
    """
    safe = [PurePosixPath(*(part for part in PurePosixPath(name).parts if part.strip("./"))) for name in names]
    short = [name.with_suffix(".png") if name.name else PurePosixPath(f"{i}.png") for i, name in enumerate(safe)]
    if len(set(short)) == len(short):
        return short
    return [name.with_name(f"{i:05d}-{name.name}") for i, name in enumerate(short)]

"""Frames of a video, decoded by imageio-ffmpeg: the sharpest of each window."""

import logging
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from splat_cli.errors import UsageError, one_line
from splat_cli.io.files import replacing

_QUALITY = 95
_FILTERS = "yadif=deint=interlaced,scale=round(iw*sar):ih"
"""ffmpeg's filters: no rows of two times; poses are estimated for pixels as wide as they are high."""
_MATRICES = re.compile(r"[(, ](bt|smpte|fcc|ycgco|gbr)")
_MAX_SD = 1024, 576
"""Largest size of a video without a colour matrix that has BT.601's; larger ones have BT.709's, as players assume."""
_HDR = ("arib-std-b67", "smpte2084")  # HLG and PQ


def extract_frames(
    video: Path,
    images: Path,
    num_frames: int,
    progress: Callable[[int], object],
    say: Callable[[str], object] = lambda line: None,
) -> list[str]:
    """Write about `num_frames` frames to `images`; returns their names. Calls progress(1) after each.

    say: called if the video is HDR, whose colours ffmpeg does not convert to those of a display.
    UsageError if the video cannot be decoded, or imageio-ffmpeg is missing.
    """
    try:
        import imageio_ffmpeg
    except ImportError:
        raise UsageError("reading a video needs imageio-ffmpeg: pip install 'splat-cli[sfm]'") from None
    # It warns about every rotated video, such as those of phones held upright.
    logging.getLogger("imageio_ffmpeg").setLevel(logging.ERROR)
    images.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    try:
        total = max(1, imageio_ffmpeg.count_frames_and_secs(str(video))[0])
        with closing(imageio_ffmpeg.read_frames(str(video))) as frames:
            filters = _filters(next(frames))
        with closing(imageio_ffmpeg.read_frames(str(video), output_params=["-vf", filters])) as frames:
            metadata = next(frames)
            if any(curve in metadata.get("pix_fmt", "") for curve in _HDR):
                say(f"{video} is HDR: its colours stay pale as they are stored; record without HDR, or convert it")
            for pixels in _sharpest(frames, metadata["size"], total, min(num_frames, total)):
                names.append(_save(images, len(names) + 1, pixels))
                progress(1)
    except (OSError, RuntimeError, StopIteration, ValueError) as error:
        said = str(error).strip().splitlines()  # ffmpeg prints its version first, the reason last
        reason = one_line(said[-1] if said else type(error).__name__)[:200]
        raise UsageError(
            f"{video} cannot be decoded as a video ({reason}): convert it to MP4, or give photographs"
        ) from error
    return names


def _filters(metadata: dict[str, Any]) -> str:
    """ffmpeg's filters; it would take untagged colours of any size as BT.601's."""
    is_large = any(side > most for side, most in zip(sorted(metadata["source_size"]), sorted(_MAX_SD), strict=True))
    is_untagged = not _MATRICES.search(metadata.get("pix_fmt", ""))
    return f"{_FILTERS}:in_color_matrix=bt709" if is_large and is_untagged else _FILTERS


def _sharpest(
    frames: Generator[Any, None, None], size: tuple[int, int], num_frames: int, num_windows: int
) -> Iterator[np.ndarray]:
    """The sharpest frame of each window, uint8 [H, W, 3]."""
    width, height = size
    best: tuple[float, np.ndarray] | None = None
    done = 0
    for number, data in enumerate(_distinct(frames), 1):
        pixels = np.frombuffer(data, np.uint8).reshape(height, width, 3)
        sharpness = _sharpness(pixels)
        if best is None or sharpness > best[0]:
            best = (sharpness, pixels)
        if number * num_windows // num_frames > done:
            yield best[1]
            best, done = None, done + 1


def _distinct(frames: Iterator[bytes]) -> Iterator[bytes]:
    """The frames, each once: ffmpeg repeats those of a variable rate, as phones film, for a constant one."""
    previous = b""
    for frame in frames:
        if frame != previous:
            yield frame
        previous = frame


def _sharpness(pixels: np.ndarray) -> float:
    """Variance of the Laplacian of green, uint8 [H, W, 3], at every second row."""
    green = pixels[::2, :, 1].astype(np.int16)
    laplacian = 4 * green[1:-1, 1:-1] - green[:-2, 1:-1] - green[2:, 1:-1] - green[1:-1, :-2] - green[1:-1, 2:]
    return float(laplacian.var()) if laplacian.size else 0.0


def _save(images: Path, number: int, pixels: np.ndarray) -> str:
    name = f"frame_{number:05d}.jpg"
    with replacing(images / name) as temporary:
        Image.fromarray(pixels).save(temporary, "JPEG", quality=_QUALITY, subsampling=0)
    return name

"""Videos of rendered images: H.264 in MP4, encoded by imageio-ffmpeg."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from splat_cli.errors import SplatError, UsageError, one_line
from splat_cli.files import replacing
from splat_cli.image_files import open_image

_RATE_FACTOR = 18
"""Constant rate factor of x264: visually lossless."""
_COLORS = "bt709"
"""Colour space tags, for players."""


def require_video(path: Path) -> None:
    """UsageError if no video can be written to `path`; called before long work."""
    if path.suffix.lower() != ".mp4":
        raise UsageError(f"{path}: videos are written as MP4; give a name that ends in .mp4")
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise UsageError("writing a video needs imageio-ffmpeg: pip install 'splat-cli[video]'") from None


def write_video(
    path: Path, pictures: Sequence[Path], frames_per_second: float, on_frame: Callable[[int], object]
) -> None:
    """Write picture files of equal size as a video; an odd last row or column is cropped. Calls on_frame(1) for each.

    UsageError if sizes differ, SplatError if ffmpeg fails.
    """
    import imageio_ffmpeg

    size = _even_size(pictures)
    options = ["-f", "mp4", "-crf", str(_RATE_FACTOR), "-movflags", "+faststart"]
    options += ["-vf", f"scale=out_color_matrix={_COLORS}:out_range=tv", "-color_range", "tv"]
    options += [word for name in ("colorspace", "color_primaries", "color_trc") for word in (f"-{name}", _COLORS)]
    with replacing(path) as beside:
        try:
            with closing(
                imageio_ffmpeg.write_frames(
                    str(beside), size, fps=frames_per_second, quality=None, macro_block_size=2,
                    ffmpeg_log_level="error", output_params=options,
                )
            ) as video:  # fmt: skip
                video.send(None)
                for picture in pictures:
                    pixels = np.asarray(open_image(picture).convert("RGB"))
                    video.send(np.ascontiguousarray(pixels[: size[1], : size[0]]))
                    on_frame(1)
        except (OSError, RuntimeError, ValueError) as error:
            reason = one_line(error)[-200:]
            raise SplatError(f"{path} was not written: ffmpeg failed ({reason}); the pictures are there") from error
        if not beside.is_file():
            raise SplatError(f"{path} was not written: ffmpeg left no file; the pictures are there")


def _even_size(pictures: Sequence[Path]) -> tuple[int, int]:
    sizes = set()
    for picture in pictures:
        with open_image(picture) as image:
            sizes.add(image.size)
    if len(sizes) > 1:
        raise UsageError(f"the pictures of a video have to be of one size, and these have {len(sizes)}: give --size")
    width, height = sizes.pop()
    if min(width, height) < 2:
        raise UsageError(f"{width}x{height} is too small for a video; give a larger --size")
    return width // 2 * 2, height // 2 * 2

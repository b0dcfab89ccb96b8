"""Videos of rendered images: H.264 in MP4, encoded by the ffmpeg of imageio-ffmpeg."""

import errno
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from splat_cli.errors import SplatError, UsageError, one_line
from splat_cli.io.files import replacing, require_writable
from splat_cli.io.image_files import open_image
from splat_cli.processes.child_process import NEW_SESSION, ending, kill

_RATE_FACTOR = 18
"""Constant rate factor of x264: visually lossless."""
_COMMENT, _MAX_METADATA = "written by splat", 32 << 20
"""Comment in a video's metadata; bytes of metadata: an hour of video has 2 MiB."""
_COLORS = "bt709"
"""Matrix, primaries and transfer function; tagged, because browsers show small videos without tags by BT.601."""


def require_video(path: Path) -> None:
    """UsageError or DiskError if no video can be written to `path`; called before long work."""
    if path.suffix.lower() != ".mp4":
        raise UsageError(f"{path}: videos are written as MP4; give a name that ends in .mp4")
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise UsageError("writing a video needs imageio-ffmpeg: pip install 'splat-cli[video]'") from None
    if path.is_file() and not _is_own(path):
        raise UsageError(f"{path} was not written by splat and would be overwritten: name another file")
    require_writable(path)


def _is_own(path: Path) -> bool:
    """Whether the video's metadata, which ffmpeg writes before the pictures, name this program."""
    with path.open("rb") as file:
        return _COMMENT.encode() in file.read(_MAX_METADATA)


def write_video(
    path: Path, pictures: Sequence[Path], frames_per_second: float, on_frame: Callable[[int], object]
) -> None:
    """Write image files of equal size as a video; an odd last row or column is cropped. Calls on_frame(1) per image.

    UsageError if sizes differ, DiskError for a full disk, SplatError if ffmpeg fails otherwise.
    """
    width, height = _even_size(pictures)
    with replacing(path) as temporary:
        command = _command(temporary, width, height, frames_per_second)
        with (
            TemporaryFile() as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, **NEW_SESSION
            ) as process,
        ):
            try:
                assert process.stdin is not None
                with suppress(BrokenPipeError):  # ffmpeg has failed: reported by its exit code
                    for picture in pictures:
                        pixels = np.asarray(open_image(picture).convert("RGB"))
                        process.stdin.write(np.ascontiguousarray(pixels[:height, :width]).data)
                        on_frame(1)
                    process.stdin.close()
                code = process.wait()
            finally:
                kill(process)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
            reason = one_line(said)[-200:] or ending(code)
        if code and os.strerror(errno.ENOSPC) in said:
            raise OSError(errno.ENOSPC, reason)  # `replacing` makes it a DiskError
        if code or not temporary.is_file():
            raise SplatError(f"{path} was not written: ffmpeg failed ({reason}); the images are kept")


def _command(path: Path, width: int, height: int, frames_per_second: float) -> list[str]:
    """Command line of ffmpeg, which reads RGB pixels from standard input."""
    import imageio_ffmpeg

    pixels = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{frames_per_second:.4f}"]
    video = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", str(_RATE_FACTOR), "-movflags", "+faststart"]
    tags = ":".join(f"{name}={_COLORS}" for name in ("colorspace", "color_primaries", "color_trc"))
    video += ["-vf", f"scale=out_color_matrix={_COLORS}:out_range=tv,setparams=range=tv:{tags}"]  # before the encoder
    program = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error"]
    return [*program, *pixels, "-i", "-", "-an", *video, "-metadata", f"comment={_COMMENT}", "-f", "mp4", str(path)]


def _even_size(pictures: Sequence[Path]) -> tuple[int, int]:
    sizes = set()
    for picture in pictures:
        with open_image(picture) as image:
            sizes.add(image.size)
    if len(sizes) > 1:
        raise UsageError(f"all frames of a video need the same size, but these have {len(sizes)} sizes: give --size")
    width, height = sizes.pop()
    if min(width, height) < 2:
        raise UsageError(f"{width}x{height} is too small for a video; give a larger --size")
    return width // 2 * 2, height // 2 * 2

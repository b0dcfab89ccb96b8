"""The process that decodes HEIC, AVIF and OpenEXR files for image_files.py, one at a time.

It is separate because the libraries crash on some damaged files, and print messages.

Request on standard input: one line of JSON, `{"task": one of TASKS, "path": PATH or null, "bytes": N}`; without a path,
the N bytes of the file follow. Answer on standard output: one line of JSON, `{"bytes": N, ...}` or
`{"error": TEXT, "bytes": 0}`, followed by N bytes.
"""

import io
import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from PIL import Image, UnidentifiedImageError

from splat_cli.errors import reason_of
from splat_cli.io.image_files import HEIF_BRANDS, image_brand
from splat_cli.processes.child_process import limit_memory

Answer = tuple[dict[str, Any], bytes]
"""Header, and pixels."""
_CHANNELS = ("Z", "depth.Z", "depth", "Y", "V", "R")
"""Channels of OpenEXR files, in order of preference: depth, grey, then a colour channel."""
_MEMORY, _MEMORY_PER_CORE, _MEMORY_PER_PIXEL = 1 << 30, 32 << 20, 64
"""Memory that decoding may use, in bytes: a base, the stacks of threads, and a picture with its copies."""


def main() -> None:
    """Answer requests until standard input ends, at the latest when the parent ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # discards messages of libraries
    while line := requests.readline():
        request = json.loads(line)
        header, pixels = _answer(request, requests)
        answers.write(json.dumps({**header, "bytes": len(pixels)}).encode() + b"\n")
        answers.write(pixels)
        answers.flush()


def _answer(request: dict[str, Any], requests: IO[bytes]) -> Answer:
    file = io.BytesIO(requests.read(request["bytes"])) if request["path"] is None else Path(request["path"])
    try:
        return TASKS[request["task"]](file)
    except UnidentifiedImageError:
        return {"error": "its content does not match its first bytes"}, b""
    except Exception as error:  # damaged files raise many types
        return {"error": reason_of(error)}, b""


def _image_header(file: Path | io.BytesIO) -> Answer:
    """Mode, size, EXIF data and colour profile of a photograph."""
    with _opened(file) as image:
        info = {name: found.hex() for name in ("exif", "icc_profile") if (found := image.info.get(name))}
        return {"mode": image.mode, "size": image.size, "info": info}, b""


def _image_pixels(file: Path | io.BytesIO) -> Answer:
    """The pixels of a photograph, in the mode that _image_header returns."""
    with _opened(file) as image:
        _limit_memory(image.size)
        return {"mode": image.mode, "size": image.size}, image.tobytes()


def _opened(file: Path | io.BytesIO) -> Image.Image:
    if image_brand(file) not in HEIF_BRANDS:
        return Image.open(file, formats=("AVIF",))
    import pillow_heif

    pillow_heif.register_heif_opener()
    return Image.open(file, formats=("HEIF",))


def _exr_header(path: Path | io.BytesIO) -> Answer:
    """Size of the first part, and the channel with depths, or None.

    `OpenEXR.File` would decode all parts; the header of `OpenEXR.InputFile` crashes on names that are not UTF-8.
    """
    import OpenEXR

    header = OpenEXR.File(str(path), separate_channels=True, header_only=True).header()
    (left, top), (right, bottom) = header["dataWindow"]
    channels = {channel.name for channel in header["channels"]}
    name = next((name for name in _CHANNELS if name in channels), min(channels, default=None))
    return {"size": (int(right) - int(left) + 1, int(bottom) - int(top) + 1), "channel": name}, b""


def _exr_pixels(path: Path | io.BytesIO) -> Answer:
    """The channel that _exr_header returns, float32."""
    import Imath
    import OpenEXR

    header, _ = _exr_header(path)
    _limit_memory(header["size"])
    with closing(OpenEXR.InputFile(str(path))) as file:
        return header, file.channel(header["channel"], Imath.PixelType(Imath.PixelType.FLOAT))


def _limit_memory(size: tuple[int, int]) -> None:
    limit_memory(_MEMORY + _MEMORY_PER_CORE * (os.cpu_count() or 1) + _MEMORY_PER_PIXEL * size[0] * size[1])


TASKS: dict[str, Callable[[Path | io.BytesIO], Answer]] = {
    "image header": _image_header,
    "image": _image_pixels,
    "exr header": _exr_header,
    "exr": _exr_pixels,
}

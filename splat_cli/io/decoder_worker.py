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
_CHANNELS, _COLORS = ("Z", "depth.Z", "depth", "Y", "V"), ("R", "G", "B")
"""Channels of OpenEXR files, in order of preference: depth, then grey; colours that may all hold the depths."""
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
    """Size of the first part, the channel with depths, or None, and other channels that must be the same.

    `OpenEXR.File` would decode all parts; the header of `OpenEXR.InputFile` crashes on names that are not UTF-8.
    """
    import OpenEXR

    header = OpenEXR.File(str(path), separate_channels=True, header_only=True).header()
    (left, top), (right, bottom) = header["dataWindow"]
    (first, upper), (last, lower) = header["displayWindow"]
    is_inside = first <= left and upper <= top and right <= last and bottom <= lower
    if is_inside and (right - left, bottom - top) != (last - first, lower - upper):
        raise ValueError("it holds a part of its picture, the data window: write the whole picture")
    channels = {channel.name for channel in header["channels"]}
    channel, size = _exr_channel(channels), (int(right) - int(left) + 1, int(bottom) - int(top) + 1)
    same = [name for name in ("G", "B") if name in channels and channel == "R"]
    return {"size": size, "channel": channel, "same": same}, b""


def _exr_channel(channels: set[str]) -> str | None:
    """The channel with depths; None without any channel. ValueError if none is named like depths.

    Layers have names before a full stop: `ViewLayer.Depth.Z` is Blender's, beside `ViewLayer.Combined.R`.
    """
    named = [name for name in _CHANNELS if name in channels]
    named += sorted(name for name in channels if "depth" in name.lower())
    named += ["R"] if "R" in channels else []
    if not named and len(channels) > 1:
        raise ValueError(f"it has {len(channels)} channels, none of depths: name one Z")
    return next(iter([*named, *channels]), None)


def _exr_pixels(path: Path | io.BytesIO) -> Answer:
    """The channel that _exr_header returns, float32."""
    import Imath
    import OpenEXR

    header, _ = _exr_header(path)
    _limit_memory(header["size"])
    with closing(OpenEXR.InputFile(str(path))) as file:
        kind = Imath.PixelType(Imath.PixelType.FLOAT)
        pixels: bytes = file.channel(header["channel"], kind)
        if any(file.channel(name, kind) != pixels for name in header["same"]):
            raise ValueError("it is a colour picture, expected depths in a channel Z")
        return header, pixels


def _limit_memory(size: tuple[int, int]) -> None:
    limit_memory(_MEMORY + _MEMORY_PER_CORE * (os.cpu_count() or 1) + _MEMORY_PER_PIXEL * size[0] * size[1])


TASKS: dict[str, Callable[[Path | io.BytesIO], Answer]] = {
    "image header": _image_header,
    "image": _image_pixels,
    "exr header": _exr_header,
    "exr": _exr_pixels,
}

"""Opening of image files, restricted to formats of photographs and pictures.

Without a list of formats, Pillow tries all decoders, whatever the suffix; its EPS decoder starts Ghostscript.

HEIC, AVIF and OpenEXR files are decoded in child processes (decoder_worker.py), which are reused for further files.
Each thread that decodes uses its own process. Files of 12 megapixels took 981 ms (HEIC), 315 (AVIF) and 211 (OpenEXR)
in a child process, and 947, 297 and 168 in the calling process.
"""

import atexit
import importlib.util
import io
import json
import struct
import subprocess
import warnings
from contextlib import suppress
from pathlib import Path
from queue import Empty, LifoQueue
from typing import IO, Any

from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import IMAGELENGTH, IMAGEWIDTH, TiffImageFile

from splat_cli.processes.child_process import ending, kill, receive, start_worker

FORMATS: tuple[str, ...] = ("JPEG", "PNG", "TIFF", "WEBP", "BMP", "GIF", "PPM", "JPEG2000")
if importlib.util.find_spec("PIL.AvifImagePlugin"):  # from Pillow 11.3 on
    FORMATS += ("AVIF",)
PHOTOGRAPH_SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp", ".heic", ".heif", ".avif")
"""Suffixes of photographs, for datasets that do not list them."""
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # callers check sizes before they decode
warnings.filterwarnings("ignore", module=r"PIL\.")  # warnings about damaged metadata, which is not used


def open_image(file: Path | io.BytesIO, formats: tuple[str, ...] = FORMATS) -> Image.Image:
    """The image with only its header decoded. formats: Pillow's names; HEIC is read only with the default, FORMATS.

    EXIF rotation is ignored, as COLMAP does.
    HEIC and AVIF are decoded in another process. Raises UnidentifiedImageError for other formats,
    ValueError for HEIC without its decoder, and any exception of a decoder for damaged files.
    """
    if formats != FORMATS:
        return _as_stored(Image.open(file, formats=formats))
    brand = image_brand(file)
    if brand in HEIF_BRANDS and importlib.util.find_spec("pillow_heif") is None:
        raise ValueError("HEIC needs pillow-heif: pip install 'splat-cli[heic]'")
    if brand in HEIF_BRANDS or (brand in AVIF_BRANDS and "AVIF" in FORMATS):
        return DecodedImage(file)
    return _as_stored(Image.open(file, formats=[name for name in formats if name != "AVIF"]))


def _as_stored(image: Image.Image) -> Image.Image:
    """The image as stored: Pillow rotates TIFF files, but no others."""
    if isinstance(image, TiffImageFile):
        image._size = image.tag_v2[IMAGEWIDTH], image.tag_v2[IMAGELENGTH]
        image.load_end = lambda: None  # type: ignore[method-assign]
    return image


def header_exif(image: Image.Image) -> Image.Exif:
    """EXIF data of an opened image, without its pixels. Raises exceptions of any type for damaged data.

    `image.getexif()` decodes the pixels of a PNG without EXIF data before them, because a chunk may follow.
    """
    if isinstance(image, PngImageFile) and "exif" not in image.info and image.fp and (found := _png_exif(image.fp)):
        image.info["exif"] = found
    return Image.Image.getexif(image)


def _png_exif(file: IO[bytes]) -> bytes | None:
    """The chunk eXIf of a PNG file, wherever it is (PNG, third edition, sec. 5.3 and 11.3.4.3); moves in the file.

    Pillow goes back to the pixels before it decodes them.
    """
    file.seek(len(_PNG_SIGNATURE))
    while len(head := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", head)
        if kind == b"eXIf":
            return file.read(length)
        file.seek(length + 4, 1)  # and the checksum
    return None


HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1")  # ISO/IEC 23008-12, annex B
AVIF_BRANDS = (b"avif", b"avis")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PROGRAM = "from splat_cli.io.decoder_worker import main; main()"
_GRACE = 5.0  # seconds for a process to end after it stopped answering
_idle: "LifoQueue[subprocess.Popen[bytes]]" = LifoQueue()


class DecodedImage(Image.Image):
    """A photograph that is decoded when its pixels are needed, like Pillow's own images. Raises ValueError."""

    def __init__(self, file: Path | io.BytesIO) -> None:
        super().__init__()
        header, _ = decode("image header", file)
        self._mode, self._size = header["mode"], tuple(header["size"])
        self.info = {name: bytes.fromhex(content) for name, content in header["info"].items()}
        self._file: Path | io.BytesIO | None = file

    def load(self) -> Any:
        """Decode on the first call."""
        if self._file is not None:
            header, pixels = decode("image", self._file)
            self.im = Image.frombytes(header["mode"], tuple(header["size"]), pixels).im
            self._file = None
        return super().load()


def image_brand(file: Path | io.BytesIO) -> bytes | None:
    """Brand of an ISO base media file, such as HEIC and AVIF; None for other files."""
    if isinstance(file, io.BytesIO):
        head = file.getbuffer()[:12].tobytes()
    else:
        with file.open("rb") as opened:
            head = opened.read(12)
    return head[8:12] if head[4:8] == b"ftyp" else None


def decode(task: str, file: Path | io.BytesIO) -> tuple[dict[str, Any], bytearray]:
    """The answer of decoder_worker.py to a task: header and pixels. ValueError if the file is damaged."""
    process = _process()
    try:
        answer, pixels = _exchange(process, task, file)
    except (OSError, ValueError):  # it crashed
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        kill(process)
        raise ValueError(f"its decoder failed: {ending(process.returncode)}") from None
    except BaseException:
        kill(process)
        raise
    _idle.put(process)
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer, pixels


def _process() -> "subprocess.Popen[bytes]":
    while True:
        try:
            process = _idle.get_nowait()
        except Empty:
            break
        if process.poll() is None:
            return process
        kill(process)  # closes its pipes
    return start_worker(_PROGRAM)


def _exchange(
    process: "subprocess.Popen[bytes]", task: str, file: Path | io.BytesIO
) -> tuple[dict[str, Any], bytearray]:
    """Send a request and read the answer. OSError or ValueError if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    content = file.getbuffer() if isinstance(file, io.BytesIO) else b""
    path = None if isinstance(file, io.BytesIO) else str(file.absolute())
    process.stdin.write(json.dumps({"task": task, "path": path, "bytes": len(content)}).encode() + b"\n")
    process.stdin.write(content)
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    pixels = bytearray(answer["bytes"])
    receive(process.stdout, memoryview(pixels))
    return answer, pixels


@atexit.register
def _close() -> None:
    """End the idle processes."""
    while not _idle.empty():
        kill(_idle.get())

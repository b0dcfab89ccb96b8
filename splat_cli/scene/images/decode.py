"""Decoding of image files to 8-bit RGB and to masks. ValueErrors state the defect of a file.

Ordinary JPEG files are decoded without the interpreter lock.
"""

import io
import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image, ImageChops, UnidentifiedImageError
from PIL.ExifTags import IFD, Base

from splat_cli.device import ceil_div
from splat_cli.errors import reason_of
from splat_cli.io.color import to_srgb
from splat_cli.io.image_files import header_exif, open_image

_START = b"\xff\xd8\xff"
_PROFILE = b"ICC_PROFILE\0"  # marks a profile in a JPEG
_COLORSPACES = ("YCbCr", "Gray")
_FACTORS = (8, 4, 2)  # by which a JPEG's cosine transform can be taken to fewer pixels
_FILTER_MARGIN = 2  # a file is decoded to at least this multiple of the wanted size, for the later filter
_NOTHING = 2
"""Maximum alpha (0 to 255) of a picture that counts as empty, because lossy files have such noise."""
INVISIBLE = "is wholly transparent"
EXCLUDED = "its mask excludes all pixels"
"""Reasons to skip a photograph without any pixel to train on."""
COLORS = "have colours of {}, which are taken as sRGB: convert them if they look wrong"
TURNED = "are turned by EXIF data, which is ignored: turn them if poses, masks or depth maps fit turned ones"
BRIGHT = "have values over 1, which are shown as white: scale or tone-map them"
"""Remark on photographs of floating-point pixels."""
_GAMMA, _GAMMA_TOLERANCE = 0.45455, 0.02  # of sRGB
_PNG, _HEAD_BYTES = b"\x89PNG", 1 << 16
_TRANSFERS = {8: "linear light", 16: "HDR (PQ)", 18: "HDR (HLG)"}
_PRIMARIES = {9: "BT.2020", 11: "DCI-P3", 12: "Display P3"}
_COLORS_OF_CAMERA, _ADOBE_RGB = 1, "R03"  # InteroperabilityIndex: cameras state no other profile (DCF 2.0)
_RATIO_TOLERANCE = 0.02
_WHITE = 128
_MAX_MASK_SHARE = 4  # relative to the photograph's pixels
_ALWAYS_DECODED = 1 << 21  # pixels
_MAX_PIXELS_PER_BYTE = 200  # limit for larger files; photographs have about 2, black pictures up to 100


def jpeg_size(content: bytes) -> tuple[int, int] | None:
    """(width, height) of a JPEG file in colour or grey; None for other files, also for damaged ones and CMYK."""
    if not content.startswith(_START):
        return None
    try:
        height, width, colorspace, _ = simplejpeg.decode_jpeg_header(content)
    except ValueError:
        return None
    return (width, height) if colorspace in _COLORSPACES else None


def reduction(full: tuple[int, int], wanted: tuple[int, int]) -> int:
    """The factor (1, 2, 4 or 8) by which the decoder may shrink a JPEG of size `full` before it is resized."""
    fitting = (f for f in _FACTORS if all(a >= f * _FILTER_MARGIN * b for a, b in zip(full, wanted, strict=True)))
    return next(fitting, 1)


def reduced(size: tuple[int, int], factor: int) -> tuple[int, int]:
    """(width, height) of a JPEG that the decoder shrinks by `factor`."""
    return ceil_div(size[0], factor), ceil_div(size[1], factor)


def decode_jpeg(content: bytes, factor: int = 1) -> np.ndarray | None:
    """uint8 [H, W, 3] of a file that `jpeg_size` accepts, shrunk by 1, 2, 4 or 8; None if it is damaged.

    The same bits as Pillow's, in less time: both use libjpeg-turbo, but here it writes straight into the array, in one
    call without Python's lock.
    """
    size = jpeg_size(content)
    if size is None:
        return None
    width, height = reduced(size, factor)
    try:
        return simplejpeg.decode_jpeg(content, "RGB", min_width=width, min_height=height)
    except ValueError:
        return None


class TransparentError(Exception):
    """Transparent pixels without a background."""


class InvisibleError(Exception):
    """All pixels are transparent."""


def to_rgb(image: Image.Image, background: tuple[int, int, int] | None) -> Image.Image:
    """8-bit RGB; transparent pixels show the background, TransparentError if it is None. Raises InvisibleError."""
    if image.mode.startswith("I"):
        return Image.fromarray(_integer_levels(image)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layered = image.convert("RGBA")
    alpha = np.asarray(layered.getchannel("A"))
    if alpha.min(initial=255) == 255:
        return layered.convert("RGB")
    if alpha.max() <= _NOTHING:
        raise InvisibleError
    if background is None:
        raise TransparentError
    return Image.alpha_composite(Image.new("RGBA", layered.size, (*background, 255)), layered).convert("RGB")


def _integer_levels(image: Image.Image) -> np.ndarray:
    """Grey levels uint8 of 16-bit pixels (their high byte, where Pillow would clip) and 32-bit pixels.

    The range of 32-bit pixels is 0 to 255 if no pixel exceeds it, otherwise 0 to 65535, otherwise 0 to the maximum.
    """
    values = np.asarray(image)
    largest = values.max(initial=0)
    shift = 8 if image.mode != "I" or 255 < largest < 1 << 16 else 0 if largest < 256 else 23
    return np.clip(values >> shift, 0, 255).astype(np.uint8)


def float_levels(values: np.ndarray) -> tuple[Image.Image, np.ndarray | None]:
    """Grey levels of floating-point pixels, 0 black and 1 white; and a mask bool of finite pixels, or None if all are.

    Non-finite pixels get the mean level, to limit their effect on neighbours when downscaled.
    """
    finite = np.isfinite(values)
    if not finite.any():
        raise ValueError("no pixel is finite")
    levels = np.where(finite, np.clip(values, 0, 1), 0)
    levels[~finite] = levels[finite].mean()
    return Image.fromarray(np.rint(255 * levels).astype(np.uint8)), None if finite.all() else finite


logging.getLogger("PIL").addHandler(logging.NullHandler())  # suppresses messages of decoders on the terminal


def image_size(path: Path) -> tuple[int, int]:
    """(width, height) from the file's header; its EXIF rotation is ignored, as COLMAP does."""
    with _opened(_regular(path)) as image:
        return image.size


def ignored_by(path: Path) -> Iterator[str]:
    """Properties of the pixels that are not applied: colours without an ICC profile, a turn by EXIF data.

    Only the header is read, except of floating-point pixels. A turn by 90 degrees is
    only named for square pictures: of others, cameras have another size then.
    """
    with _opened(_regular(path)) as image:
        if image.mode == "CMYK":
            yield COLORS.format("CMYK")
        has_profile = "icc_profile" in image.info
        if not has_profile and abs(image.info.get("gamma", _GAMMA) - _GAMMA) > _GAMMA_TOLERANCE:
            yield COLORS.format("another gamma")  # of PNG files
        if colors := _coded_colors(path, has_profile):
            yield COLORS.format(colors)
        if image.mode == "F" and _is_plausible(image.size, _content(path)):
            with suppress(Exception):  # damaged: decoding it says so
                if np.nanmax(np.asarray(image)) > 1 + 1 / 255:
                    yield BRIGHT
        turns = (2, 3, 4, 5, 6, 7, 8) if image.width == image.height else (2, 3, 4)
        with suppress(Exception):  # damaged EXIF data: Pillow's parser raises exceptions of any type
            exif = header_exif(image)
            if exif.get(Base.Orientation) in turns:
                yield TURNED
            if not has_profile and exif.get_ifd(IFD.Interop).get(_COLORS_OF_CAMERA) == _ADOBE_RGB:
                yield COLORS.format("Adobe RGB")


def _coded_colors(path: Path, has_profile: bool) -> str | None:
    """Colours other than sRGB's that a PNG, HEIC or AVIF file states by code points of ITU-T H.273, without a profile.

    HDR counts in any case: an ICC profile beside it is for displays that cannot show it.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    layout, key = (">BB", b"cICP") if head.startswith(_PNG) else (">HH", b"colrnclx")
    at = head.find(key)
    if at < 0 or at + len(key) + 4 > len(head):
        return None
    primaries, transfer = struct.unpack_from(layout, head, at + len(key))
    return _TRANSFERS.get(transfer) or (None if has_profile else _PRIMARIES.get(primaries))


def jpeg_reduction(path: Path, wanted: tuple[int, int]) -> int:
    """The factor (1, 2, 4 or 8) by which the decoder may shrink a JPEG before it is resized to `wanted`; else 1."""
    with _opened(_regular(path)) as image:
        return reduction(image.size, wanted) if image.format in ("JPEG", "MPO") else 1


def decode_photo(
    path: Path,
    size: tuple[int, int],
    background: tuple[int, int, int] | None,
    factor: int | None = None,
    mask: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Photograph uint8 [H, W, 3] at `size` (width, height), and a mask if some of its pixels are not finite.

    Colours of other profiles, such as the Display P3 of phones, are converted to sRGB.

    factor: from jpeg_reduction, if `size` is the size that the decoder then returns; by default the file is decoded to
    at least twice the size and filtered (over 45 dB against filtering all pixels: bench_images.py). The mask is
    uint8 [H, W]: 0 where a pixel is not finite or, at a smaller size, partly not, else 255. Transparent pixels show the
    background; ValueError if it is None, or if all pixels are transparent. mask: uint8 of the file's size; pixels where
    it is 0 get the mean colour of the others, because filters mix neighbours.
    """
    content = _content(path)
    pixels, profile, finite = _decoded(content, size, background, factor if mask is None else 1)
    if mask is not None:
        fill_masked(pixels, mask)
    if pixels.shape[1::-1] != size:
        pixels = np.array(Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS))
    return _in_srgb(pixels, profile), finite if finite is None else _mask_of(finite, size)


def fill_masked(pixels: np.ndarray, mask: np.ndarray) -> None:
    """Give pixels uint8 [H, W, 3] where the mask is 0 the mean colour of the others, before a filter mixes them."""
    count = max(int(np.count_nonzero(mask)), 1)
    sums = (int(np.sum(pixels[..., channel], where=mask > 0, dtype=np.int64)) for channel in range(3))
    pixels[mask == 0] = np.array([total // count for total in sums], np.uint8)


def _decoded(
    content: bytes, size: tuple[int, int], background: tuple[int, int, int] | None, factor: int | None
) -> tuple[np.ndarray, bytes | None, np.ndarray | None]:
    """Pixels uint8 [H, W, 3] of at least `size`, ICC profile, and bool [H, W] of finite pixels, if some are not."""
    pixels = _decode_jpeg(content, size, factor)
    if pixels is not None:
        return pixels, _jpeg_profile(content), None
    finite = None
    with _opened(io.BytesIO(content)) as image:
        profile = image.info.get("icc_profile")
        if not _is_plausible(image.size, content):
            raise ValueError(f"has {image.width}x{image.height} pixels in {len(content)} bytes, as no photograph has")
        try:
            if image.mode == "F":
                image, finite = float_levels(np.asarray(image))
            color = to_rgb(image, background)
        except InvisibleError:
            raise ValueError(INVISIBLE) from None
        except TransparentError:
            raise ValueError("is transparent in places: train with --background black or white") from None
        except Exception as error:
            raise ValueError(f"cannot be decoded ({reason_of(error)})") from error
    return np.array(color), profile, finite


def _jpeg_profile(content: bytes) -> bytes | None:
    """The ICC profile of a JPEG; opening it takes longer than the search."""
    if _PROFILE not in content:
        return None
    with _opened(io.BytesIO(content)) as image:
        return image.info.get("icc_profile")


def _in_srgb(pixels: np.ndarray, profile: bytes | None) -> np.ndarray:
    """Pixels uint8 [H, W, 3] of an ICC profile as sRGB."""
    transform = to_srgb(profile) if profile else None
    return pixels if transform is None else np.array(transform.apply(Image.fromarray(pixels)))


def has_alpha(path: Path) -> bool:
    """Whether a pixel of an image file is not opaque; False for a file that cannot be decoded."""
    try:
        stat = _regular(path).stat()
        return _has_alpha(path, stat.st_mtime_ns, stat.st_size)
    except Exception:  # decoders raise exceptions of any type on broken files
        return False


@lru_cache(1 << 16)
def _has_alpha(path: Path, *version: int) -> bool:
    """See has_alpha. version: of the file; many programs write opaque alpha channels, which must be decoded."""
    with path.open("rb") as file:
        if file.read(len(_START)) == _START:  # the suffix may be wrong
            return False
    content = _content(path)
    with _opened(io.BytesIO(content)) as image:
        if not image.has_transparency_data or not _is_plausible(image.size, content):
            return False
        return bool(np.asarray(image.convert("RGBA").getchannel("A")).min() < 255)


def _decode_jpeg(content: bytes, size: tuple[int, int], factor: int | None) -> np.ndarray | None:
    """See _decoded; only for ordinary JPEG files, None for others."""
    full = jpeg_size(content)
    if full is None or not _is_plausible(full, content):
        return None
    return decode_jpeg(content, factor or reduction(full, size))


def decode_mask(path: Path, photo: Path, size: tuple[int, int], inverted: bool) -> np.ndarray:
    """Mask uint8 [H, W] at `size`: 255 where the file is white, 0 where it is black or, when downscaled, partly black.

    photo: the photograph it belongs to.
    """
    photo_size = image_size(photo)
    if not path.exists():
        raise ValueError(f"its mask {path.name} is missing")
    try:
        with _opened(io.BytesIO(_content(path))) as image:
            if image.width * image.height > _MAX_MASK_SHARE * photo_size[0] * photo_size[1]:
                raise ValueError(f"is {image.width}x{image.height}, the photograph {photo_size[0]}x{photo_size[1]}")
            _refuse_colors(image)
            mask = image.convert("I" if image.mode.startswith("I") else "L")
            values = np.asarray(mask)
    except Exception as error:
        raise ValueError(f"its mask {path.name} {reason_of(error)}") from error
    if abs(mask.width * size[1] / (mask.height * size[0]) - 1) > _RATIO_TOLERANCE:
        raise ValueError(f"its mask {path.name} is {mask.width}x{mask.height}, the photograph {size[0]}x{size[1]}")
    return _mask_of(_is_white(values) != inverted, size)


def _refuse_colors(mask: Image.Image) -> None:
    """ValueError for a cut-out photograph or a map of classes, of which only the bright pixels would count."""
    if mask.has_transparency_data and np.asarray(mask.convert("RGBA").getchannel("A")).min() < _WHITE:
        raise ValueError("is transparent in places, expected black and white")
    if mask.mode in ("RGB", "RGBA", "P", "PA", "CMYK"):
        red, *others = mask.convert("RGB").split()
        if any(np.asarray(ImageChops.difference(red, other)).max() >= _WHITE // 2 for other in others):
            raise ValueError("is a colour picture, expected black and white")


def _is_white(values: np.ndarray) -> np.ndarray:
    """Mask of values of at least half the maximum: 1 for arrays of 0 and 1, else 255 or 65535."""
    largest = values.max(initial=0)
    return values >= (1 if largest == 1 else _WHITE * (257 if largest > 255 else 1))


def decode_levels(path: Path, max_pixels: int) -> np.ndarray:
    """Values [H, W] of a grey image of at most `max_pixels`: integers of 8 to 32 bits or floats, as in the file."""
    content = _content(path)
    with _opened(io.BytesIO(content)) as image:
        check_pixels(image.size, max_pixels)
        if not _is_plausible(image.size, content):
            raise ValueError(f"has {image.width}x{image.height} pixels in {len(content)} bytes")
        if image.mode in ("P", "1"):
            raise ValueError("has a palette, expected grey levels")
        try:
            # band by band: an array of all bands would take ten bytes per pixel
            levels = image.getchannel(0) if len(image.getbands()) > 1 else image
            others = [image.getchannel(band) for band in (1, 2)] if image.mode in ("RGB", "RGBA") else []
            values = np.asarray(levels)
        except Exception as error:
            raise ValueError(f"cannot be decoded ({reason_of(error)})") from error
    if any(ImageChops.difference(levels, other).getbbox() for other in others):
        raise ValueError("is a colour picture, expected grey levels")
    return values


def check_pixels(size: tuple[int, int], max_pixels: int) -> None:
    """ValueError, before memory is allocated, for a depth map of `size` (width, height) with more pixels."""
    if size[0] * size[1] > max_pixels:
        raise ValueError(f"its depth map is {size[0]}x{size[1]}, the photograph smaller")


def wholly_white(mask: Image.Image, size: tuple[int, int]) -> np.ndarray:
    """Downscaled mask uint8 [H, W]: 255 where all source pixels are 255, else 0."""
    return (np.asarray(mask.resize(size, Image.Resampling.BOX)) == 255).astype(np.uint8) * np.uint8(255)


def _mask_of(kept: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Mask uint8 [H, W] at `size` of pixels to keep, bool."""
    mask = Image.fromarray(kept.astype(np.uint8) * np.uint8(255))
    return np.array(mask) if mask.size == size else wholly_white(mask, size)


def _content(path: Path) -> bytes:
    """The whole file: decoders may request as many bytes as a header claims; ValueErrors of _opening."""
    with _opening():
        return _regular(path).read_bytes()


def _regular(path: Path) -> Path:
    """The path; ValueError for pipes, devices and invalid names."""
    try:
        is_special = path.exists() and not path.is_file()
    except OSError as error:  # a name that is too long
        raise ValueError(error.strerror) from None
    if is_special:
        raise ValueError("is not a regular file")
    return path


def _opened(file: Path | io.BytesIO) -> Image.Image:
    """The image with only its header decoded; ValueErrors of _opening."""
    with _opening():
        return open_image(file)


@contextmanager
def _opening() -> Iterator[None]:
    """Turns exceptions into ValueErrors with a reason."""
    try:
        yield
    except FileNotFoundError as error:
        raise ValueError("the file is missing") from error
    except UnidentifiedImageError as error:
        raise ValueError("the file is empty or not an image") from error
    except Exception as error:  # decoders raise exceptions of any type on broken files
        raise ValueError(f"cannot be opened ({reason_of(error)})") from error


def _is_plausible(size: tuple[int, int], content: bytes) -> bool:
    """Whether a file decodes to a plausible amount of memory for its size."""
    return size[0] * size[1] <= max(_ALWAYS_DECODED, _MAX_PIXELS_PER_BYTE * len(content))

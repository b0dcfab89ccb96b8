"""Files of depth maps: grey images, NumPy arrays, OpenEXR. ValueErrors state the defect of a file."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import reason_of
from splat_cli.io.files import regular
from splat_cli.io.image_files import decode
from splat_cli.scene.images.decode import check_pixels, decode_levels

DEPTH_SUFFIXES = (".png", ".npy", ".exr", ".tif", ".tiff")


def read_depths(path: Path, max_pixels: int) -> np.ndarray:
    """Values [h, w], integers or floats as in the file; ValueError, before decoding, for more than `max_pixels`."""
    read = {".npy": _read_npy, ".exr": _read_exr}.get(path.suffix.lower(), decode_levels)
    try:
        values = read(path, max_pixels)
    except OSError as error:
        raise ValueError(f"cannot be read ({reason_of(error)})") from error
    if values.dtype.kind not in "iuf" or values.ndim != 2 or not values.size:
        raise ValueError(f"holds {values.dtype} of shape {list(values.shape)}, expected numbers [height, width]")
    return values


def read_confidence(path: Path, max_pixels: int) -> np.ndarray:
    """Confidences float32 [h, w], 0 to 1, of levels 0 to 2 (ARKit's), 255 (Polycam's) or 65535, or floats 0 to 1."""
    levels = read_depths(path, max_pixels)
    largest = np.max(levels, initial=0, where=~np.isnan(levels))
    is_share = levels.dtype.kind == "f" and largest <= 1
    most = 1 if is_share else next((most for most in (2, 255) if largest <= most), 65535)
    return np.clip(levels / np.float32(most), 0, 1).astype(np.float32)


def _read_npy(path: Path, max_pixels: int) -> np.ndarray:
    try:
        values = np.load(regular(path), mmap_mode="r", allow_pickle=False)  # a file that is too short is refused
    except OSError:
        raise
    except Exception as error:  # damaged headers raise many types
        raise ValueError(f"is not a readable array of NumPy ({reason_of(error)})") from error
    if not isinstance(values, np.ndarray):
        raise ValueError("is not a single array of NumPy")
    if values.ndim == 3:
        values = values[0] if values.shape[0] == 1 else values[..., 0] if values.shape[2] == 1 else values
    if values.ndim == 2:
        check_pixels((values.shape[1], values.shape[0]), max_pixels)
    return np.asarray(values)


def _read_exr(path: Path, max_pixels: int) -> np.ndarray:
    """The channel of depths of the first part."""
    if any(importlib.util.find_spec(name) is None for name in ("OpenEXR", "Imath")):
        raise ValueError("OpenEXR files need the extra exr: pip install 'splat-cli[exr]'")
    regular(path).open("rb").close()
    header, _ = _decoded("exr header", path)
    width, height = header["size"]
    if not 0 < width * height <= max(1 << 21, 200 * path.stat().st_size):  # the limit of photographs
        raise ValueError(f"has {width}x{height} pixels in {path.stat().st_size} bytes")
    check_pixels((width, height), max_pixels)
    if header["channel"] is None:
        raise ValueError("has no channels")
    _, content = _decoded("exr", path)
    if len(content) != 4 * width * height:
        raise ValueError(f"has {len(content) // 4:,} values for {width}x{height} pixels")
    return np.frombuffer(content, np.float32).reshape(height, width)


def _decoded(task: str, path: Path) -> tuple[dict[str, Any], bytearray]:
    try:
        return decode(task, path)
    except ValueError as error:
        raise ValueError(f"is not a readable OpenEXR file ({reason_of(error)})") from error

"""Files of depth maps: grey images, NumPy arrays, OpenEXR. ValueErrors state the defect of a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import reason_of
from splat_cli.scene.images.decode import decode_levels

DEPTH_SUFFIXES = (".png", ".npy", ".exr", ".tif", ".tiff")
_CHANNELS = ("Z", "depth.Z", "depth", "Y", "V", "R")
"""Of OpenEXR files, in the order in which they are looked for: of depth, of grey pictures, the first of colours."""

_ALWAYS_DECODED = 1 << 23  # values of an OpenEXR file, all channels of which are decoded
_MAX_VALUES_PER_BYTE = 200  # of larger files, as of pixels of photographs


def read_depths(path: Path) -> np.ndarray:
    """Values [h, w] as the file has them, integers or floats."""
    suffix = path.suffix.lower()
    try:
        values = _read_npy(path) if suffix == ".npy" else _read_exr(path) if suffix == ".exr" else decode_levels(path)
    except OSError as error:
        raise ValueError(f"cannot be read ({reason_of(error)})") from error
    if values.dtype.kind not in "iuf" or values.ndim != 2 or not values.size:
        raise ValueError(f"holds {values.dtype} of shape {list(values.shape)}, expected numbers [height, width]")
    return values


def read_confidence(path: Path) -> np.ndarray:
    """Confidences float32 [h, w], 0 to 1, of levels 0 to 2 (ARKit's) or 0 to 255 (Polycam's)."""
    levels = read_depths(path)
    return np.clip(levels / np.float32(2 if levels.max() <= 2 else 255), 0, 1).astype(np.float32)


def _read_npy(path: Path) -> np.ndarray:
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)  # a file that is too short is refused
    except OSError:
        raise
    except Exception as error:  # of many types, of damaged headers
        raise ValueError(f"is not a readable array of NumPy ({reason_of(error)})") from error
    if not isinstance(values, np.ndarray):
        raise ValueError("is not a single array of NumPy")
    if values.ndim == 3:
        values = values[0] if values.shape[0] == 1 else values[..., 0] if values.shape[2] == 1 else values
    return np.asarray(values)


def _read_exr(path: Path) -> np.ndarray:
    try:
        import OpenEXR
    except ImportError:
        raise ValueError("OpenEXR files need the extra exr: pip install 'splat-cli[exr]'") from None
    try:
        parts = OpenEXR.File(str(path), separate_channels=True, header_only=True).parts
        num_values, size = sum(_num_values(part.header) for part in parts), path.stat().st_size
        if num_values > max(_ALWAYS_DECODED, _MAX_VALUES_PER_BYTE * size):
            raise ValueError(f"has {num_values:,} values in {size:,} bytes, as no depth map has")
        channels: Mapping[str, Any] = OpenEXR.File(str(path), separate_channels=True).channels()
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"is not a readable OpenEXR file ({reason_of(error)})") from error
    name = next((name for name in _CHANNELS if name in channels), min(channels, default=None))
    if name is None:
        raise ValueError("has no channels")
    return np.asarray(channels[name].pixels, np.float32)


def _num_values(header: Mapping[str, Any]) -> int:
    """Pixels times channels of a part of an OpenEXR file. ValueError without pixels."""
    low, high = header["dataWindow"]
    width, height = (int(last) - int(first) + 1 for first, last in zip(low, high, strict=True))
    if width < 1 or height < 1:
        raise ValueError(f"has {width}x{height} pixels")
    return width * height * len(header["channels"])

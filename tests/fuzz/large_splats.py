"""Builders of large files of splats: SPZ, SOG, and any format as the program writes it."""

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from splat_cli.gaussians.formats import format_for
from splat_cli.gaussians.formats.spz import HEADER, MAGIC
from splat_cli.gaussians.formats.table import write_as
from tests.gaussians.some_splats import some_splats

Builder = Callable[[Path, int], Path]
_WIDTHS = (9, 1, 3, 3, 4, 45)
"""Bytes of a splat of degree 3 in the streams of .spz."""


def _noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def build_spz(folder: Path, size: int) -> Path:
    """Only the positions do not compress: 26 bytes of floats per byte of the file."""
    n = size // 9
    content = HEADER.pack(MAGIC, 3, n, 3, 12, 0, 0) + _noise(9 * n).tobytes() + bytes(sum(_WIDTHS[1:]) * n)
    (folder / "a.spz").write_bytes(gzip.compress(content, compresslevel=1))
    return folder / "a.spz"


def build_spz_zstd(folder: Path, size: int) -> Path:
    import zstandard

    n = size // 9
    streams = [_noise(9 * n).tobytes(), *(bytes(width * n) for width in _WIDTHS[1:])]
    packed = [zstandard.compress(stream) for stream in streams]
    head = HEADER.pack(MAGIC, 4, n, 3, 12, 0, 6) + struct.pack("<I12x", 32)
    table = b"".join(struct.pack("<QQ", len(p), len(s)) for p, s in zip(packed, streams, strict=True))
    (folder / "a.spz").write_bytes(head + table + b"".join(packed))
    return folder / "a.spz"


def build_sog(folder: Path, size: int) -> Path:
    """The same, with some splats that are not finite, so that the others are copied."""
    side = int((size // 9) ** 0.5)
    noise, zero = _noise(side, side, 3), np.zeros((side, side, 3), np.uint8)
    opaque = np.dstack([zero, np.full((side, side), 252, np.uint8)])
    images = {"means_l": noise, "means_u": noise, "quats": opaque, "scales": noise, "sh0": opaque, "labels": zero}
    images["entries"] = np.zeros((1, 960, 3), np.uint8)
    codes = {"codebook": [0.0] * 256}
    means = {"mins": [0, 0, 0], "maxs": [0, 0, 90], "files": ["means_l", "means_u"]}
    meta = {"version": 2, "count": side * side, "means": means, "quats": {"files": ["quats"]}}
    meta |= {name: codes | {"files": [name]} for name in ("scales", "sh0")}
    meta["shN"] = codes | {"count": 64, "bands": 3, "files": ["entries", "labels"]}
    with zipfile.ZipFile(folder / "a.sog", "w") as archive:
        archive.writestr("meta.json", json.dumps(meta))
        for name, pixels in images.items():
            stream = io.BytesIO()
            Image.fromarray(pixels).save(stream, "WebP", lossless=True, exact=True, quality=0, method=0)
            archive.writestr(name, stream.getvalue())
    return folder / "a.sog"


def build_splats(suffix: str, bytes_each: int) -> Builder:
    def build(folder: Path, size: int) -> Path:
        write_as(format_for(Path(f"a{suffix}")), folder / f"a{suffix}", some_splats(size // bytes_each, 3))
        return folder / f"a{suffix}"

    return build

"""PlayCanvas' .sog, version 2: a zip of lossless WebP images, one pixel per splat, and a meta.json.

Positions are 16 bits between bounds, after x -> sign(x) log(1 + |x|), low and high byte in two images. Quaternions are
the three smallest components of wxyz in bytes, and 252 plus the index of the largest. Log scales and constant
colours are indices into codebooks of 256 numbers, opacity is a byte. The other coefficients of a splat are one of up
to 65536 entries of a palette. These entries, 64 in a row, are also indices into a codebook.
"""

import io
import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from splat_cli import __version__
from splat_cli.device import ceil_div
from splat_cli.device.host import num_cores
from splat_cli.errors import ZIP_ERRORS, FormatError, reason_of
from splat_cli.gaussians.arrays import SplatArrays, splat_bytes
from splat_cli.gaussians.editing.edits import in_morton_order
from splat_cli.gaussians.formats.quantize import (
    from_smallest_three,
    logits_from_bytes,
    opacity_bytes,
    smallest_three,
    to_bytes,
    unit_quats,
    unpack_in_blocks,
)
from splat_cli.gaussians.ply import finite_splats
from splat_cli.io.archives import max_unpacked_bytes, open_zip, read_member
from splat_cli.io.files import replacing
from splat_cli.io.image_files import open_image
from splat_cli.io.json_input import entry, json_object, numbers
from splat_cli.processes.threads import run_in_threads

CODES = 256
_KEYS = {"version", "asset", "count", "antialias", "means", "scales", "quats", "sh0", "shN"}
_ROUNDS, _PALETTE_ROUNDS = 10, 3
_SAMPLES = 64
"""Maximum number of vectors per mean that k-means samples."""
_BLOCK = 1 << 14
"""Vectors per batch."""


def codebook(values: np.ndarray) -> np.ndarray:
    """CODES numbers, float32, ascending, that approximate all of `values`, of any shape.

    Lloyd's algorithm. Half of the initial numbers are evenly spaced over the range, half over the quantiles, so that
    frequent and rare values are close to a number.
    """
    ordered = np.sort(values.astype(np.float64), axis=None)
    if not len(ordered):
        return np.zeros(CODES, np.float32)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    spread = np.linspace(ordered[0], ordered[-1], CODES // 2)
    common = ordered[np.linspace(0, len(ordered) - 1, CODES // 2).astype(int)]
    codes = np.sort(np.concatenate([spread, common]))
    for _ in range(_ROUNDS):
        ends = np.searchsorted(ordered, 0.5 * (codes[1:] + codes[:-1]), side="right")
        begins, ends = np.concatenate([[0], ends]), np.concatenate([ends, [len(ordered)]])
        codes = np.where(ends > begins, (sums[ends] - sums[begins]) / np.maximum(ends - begins, 1), codes)
    return np.sort(codes).astype(np.float32)


def nearest_codes(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Index uint8 of the number in ascending `codes` nearest to each of `values`."""
    middles = 0.5 * (codes[1:].astype(np.float64) + codes[:-1])
    return np.searchsorted(middles, values).astype(np.uint8)


def palette(vectors: np.ndarray, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(palette float32 [P, D] of at most `count` vectors, index int [N] of the entry for each of `vectors` [N, D]).

    Two levels, because k-means with tens of thousands of means is slow: about sqrt(count) clusters, each with a number
    of means proportional to its size.
    """
    vectors = np.ascontiguousarray(vectors, np.float32)
    if len(vectors) <= count:
        return vectors, np.arange(len(vectors))
    _, cluster = _k_means(vectors, max(1, round(count**0.5)), seed)
    sizes = np.bincount(cluster)
    clusters = np.split(np.argsort(cluster, kind="stable"), np.cumsum(sizes)[:-1])
    ends = np.rint(np.cumsum(sizes) * (count / len(vectors))).astype(int)
    calls = (
        partial(_k_means, vectors[members], max(1, num), seed)
        for members, num in zip(clusters, np.diff(ends, prepend=0), strict=True)
    )
    labels, parts, num = np.empty(len(vectors), np.int64), [], 0
    for members, (means, own) in zip(clusters, run_in_threads(calls, num_cores()), strict=True):
        labels[members] = num + own
        parts.append(means)
        num += len(means)
    return np.concatenate(parts), labels


def _k_means(vectors: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(means [<= k, D], label of each vector): Lloyd's algorithm from random vectors; empty clusters are dropped."""
    if len(vectors) <= k:
        return vectors, np.arange(len(vectors))
    sample = vectors[np.random.default_rng(seed).choice(len(vectors), min(len(vectors), _SAMPLES * k), replace=False)]
    means = sample[:k]
    for _ in range(_PALETTE_ROUNDS):
        labels = _nearest(sample, means)
        order = np.argsort(labels, kind="stable")
        begins = np.unique(labels[order], return_index=True)[1]
        sums = np.add.reduceat(sample[order].astype(np.float64), begins, axis=0)
        counts = np.diff(np.append(begins, len(sample)))
        means = (sums / counts[:, None]).astype(np.float32)
    return means, _nearest(vectors, means)


def _nearest(vectors: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Index of the mean nearest to each vector."""
    squares = 0.5 * (means**2).sum(axis=1)

    def nearest(block: np.ndarray) -> np.ndarray:
        products = block @ means.T
        return np.subtract(squares, products, out=products).argmin(axis=1)

    calls = [partial(nearest, vectors[i : i + _BLOCK]) for i in range(0, len(vectors), _BLOCK)]
    return np.concatenate(list(run_in_threads(calls, num_cores())) if len(calls) > 1 else [calls[0]()])


MAX_SIDE = 16383
"""Maximum width and height of a WebP image, in pixels."""
_MAX_SPARE_PIXELS = 1 << 16
"""Maximum number of pixels of an image, in addition to two for each of its splats."""
_MAX_HEADER_BYTES = 1 << 20
"""Maximum size of a WebP file in bytes, in addition to four for each pixel."""
_MOST = 65535
_FIRST_INDEX = 252
_ROW = 64
"""Entries of the palette in a row of its image."""
_PALETTE_BITS, _SPLATS_AN_ENTRY = (10, 16), 4
"""Palettes have one entry for every 4 to 8 splats, but at least 2^10 and at most 2^16: docs/experiments/formats.md."""
MAX_ENTRIES = 1 << _PALETTE_BITS[1]
"""Maximum number of entries of the palette."""
_MAX_META_BYTES = 1 << 20
"""Maximum size of meta.json in bytes; much more than its codebooks need."""


def as_image(rows: np.ndarray) -> np.ndarray:
    """Pixels [N, C] in rows of a nearly square image, padded with zeros."""
    width = max(1, int(np.ceil(len(rows) ** 0.5)))
    image = np.zeros((max(1, ceil_div(len(rows), width)) * width, rows.shape[1]), np.uint8)
    image[: len(rows)] = rows
    return image.reshape(-1, width, rows.shape[1])


def encode_webp(pixels: np.ndarray) -> bytes:
    """The pixels uint8 [H, W, C] as a lossless WebP image."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="WebP", lossless=True, exact=True)
    return stream.getvalue()


def read_pixels(file: zipfile.ZipFile, name: str, count: int) -> np.ndarray:
    """The first pixels uint8 [count, 4] of an image; ValueError if it has fewer, or far more."""
    pixels = read_image(file, name, 2 * count + _MAX_SPARE_PIXELS)
    if len(pixels) < count:
        raise ValueError(f"{name!a} has {len(pixels)} pixels, too few for {count} splats")
    return pixels[:count]


def read_image(file: zipfile.ZipFile, name: str, most: int) -> np.ndarray:
    """Pixels uint8 [P, 4] of an image, row by row. ValueError, before decoding, if there are more than `most`."""
    with open_image(io.BytesIO(read_member(file, name, 4 * most + _MAX_HEADER_BYTES)), ("WEBP",)) as image:
        if image.width * image.height > most:
            raise ValueError(f"{name!a} has {image.width}x{image.height} pixels, more than its splats need")
        return np.asarray(image.convert("RGBA")).reshape(-1, 4)


def write_sog(path: Path, splats: SplatArrays, max_entries: int = MAX_ENTRIES) -> None:
    """Write the splats in Morton order. FormatError if there are more than images can hold.

    max_entries: of the palette of view-dependent colours; fewer make the file smaller and these colours coarser.
    """
    if len(splats) > MAX_SIDE**2:
        raise FormatError(f"{path} can hold {MAX_SIDE**2:,} splats, not {len(splats):,}; write another format")
    contents = sog_files(splats, max_entries)
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as file:
        for name, content in contents.items():
            file.writestr(zipfile.ZipInfo(name), content)


def sog_files(splats: SplatArrays, max_entries: int = MAX_ENTRIES) -> dict[str, bytes]:
    """Names and contents of the files that hold the splats, in Morton order. max_entries: see `write_sog`."""
    splats = in_morton_order(splats)
    images, means = _pack_means(splats.means)
    largest, three = smallest_three(unit_quats(splats.quats))
    images["quats.webp"] = np.concatenate([to_bytes(127.5 * (1 + three)), _FIRST_INDEX + largest[:, None]], axis=1)
    scales, colors = codebook(splats.log_scales), codebook(splats.sh0)
    images["scales.webp"] = nearest_codes(splats.log_scales, scales)
    images["sh0.webp"] = np.concatenate([nearest_codes(splats.sh0, colors), opacity_bytes(splats)[:, None]], axis=1)
    meta: dict[str, Any] = {
        "version": 2,
        "asset": {"generator": f"splat {__version__}"},
        "count": len(splats),
        "antialias": splats.antialiased,
        "means": means,
        "scales": {"codebook": scales.tolist(), "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": colors.tolist(), "files": ["sh0.webp"]},
    }
    pixels = {name: as_image(rows) for name, rows in images.items()}
    if splats.sh_degree:
        pixels["shN_centroids.webp"], labels, meta["shN"] = _pack_palette(splats, max_entries)
        pixels["shN_labels.webp"] = as_image(labels)
    encoded = run_in_threads((partial(encode_webp, image) for image in pixels.values()), num_cores())
    return dict(zip(pixels, encoded, strict=True)) | {"meta.json": json.dumps(meta).encode()}


def steps(splats: SplatArrays) -> np.ndarray:
    """Distance [N] between neighbouring coordinates in the file at each splat, world units."""
    sizes = np.abs(splats.means.astype(np.float64))
    low, high = _log_bounds(_logs(splats.means))
    return np.maximum(((high - low) / _MOST * (1 + sizes)).max(axis=1), np.spacing(np.float32(sizes.max(axis=1))))


def read_sog(path: Path) -> SplatArrays:
    """Read version 2. FormatError if the file is damaged, of another version or unpacks to too much."""
    try:
        with open_zip(path) as file:
            meta = json_object(read_member(file, "meta.json", _MAX_META_BYTES))
            if (version := entry(meta, "version", int)) != 2:
                raise ValueError(f"version {version}, only 2 is read")
            n, degree = entry(meta, "count", int), entry(meta["shN"], "bands", int) if "shN" in meta else 0
            if degree not in range(4) or not 0 <= n * splat_bytes(degree) <= max_unpacked_bytes(path):
                raise ValueError(f"{n} splats of SH degree {degree}, too many for {path.stat().st_size} bytes")
            with np.errstate(over="ignore", invalid="ignore"):  # numbers that float32 cannot hold: dropped
                splats = finite_splats(_unpack(file, meta, n, (degree + 1) ** 2 - 1))
            splats.unread = tuple(sorted(meta.keys() - _KEYS))
            return splats
    except (*ZIP_ERRORS, Image.DecompressionBombError) as error:
        raise FormatError(f"{path} cannot be read as .sog ({reason_of(error)}): export it again") from error


def _unpack(file: zipfile.ZipFile, meta: Any, n: int, k: int) -> SplatArrays:
    """The n splats, with k coefficients beyond the constant one."""
    means, *parts = (entry(meta, name, dict) for name in ("means", "quats", "scales", "sh0"))
    low, high = (read_pixels(file, _file(means, i), n) for i in range(2))
    bounds = [numbers(means, name, 3) for name in ("mins", "maxs")]
    quats, scales, colors = (read_pixels(file, _file(part, 0), n) for part in parts)
    if quats[:, 3].min(initial=255) < _FIRST_INDEX:
        raise ValueError("its quaternions do not say which component is the largest")
    scale_codes, color_codes = _codes(meta["scales"]), _codes(meta["sh0"])
    entries, labels = _palette(file, meta["shN"], n, k) if k else (np.zeros((1, 0, 3), np.float32), np.zeros(n, int))

    def unpack(rows: slice) -> SplatArrays:
        levels = low[rows, :3].astype(np.float64) + 256 * high[rows, :3].astype(np.float64)
        logs = bounds[0] + (bounds[1] - bounds[0]) * levels / _MOST
        return SplatArrays(
            means=(np.sign(logs) * np.expm1(np.abs(logs))).astype(np.float32),
            log_scales=scale_codes[scales[rows, :3]],
            quats=from_smallest_three(quats[rows, 3] - _FIRST_INDEX, quats[rows, :3] / 127.5 - 1),
            logit_opacities=logits_from_bytes(colors[rows, 3]),
            sh0=color_codes[colors[rows, :3]],
            shN=entries[labels[rows]],
        )

    return unpack_in_blocks(n, k, unpack, meta.get("antialias") is True)


def _pack_means(means: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(bytes [N, 3] of two images, metadata)."""
    logs = _logs(means)
    low, high = _log_bounds(logs)
    levels = np.rint(_MOST * (logs - low) / np.where(high > low, high - low, 1)).astype(np.uint16)
    images = {"means_l.webp": (levels & 255).astype(np.uint8), "means_u.webp": (levels >> 8).astype(np.uint8)}
    return images, {"mins": low.tolist(), "maxs": high.tolist(), "files": list(images)}


def _logs(means: np.ndarray) -> np.ndarray:
    """Coordinates as the file stores them: sign(x) log(1 + |x|), float64 [N, 3]."""
    return np.sign(means) * np.log1p(np.abs(means.astype(np.float64)))


def _log_bounds(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimum and maximum [3] of such coordinates."""
    return (logs.min(axis=0), logs.max(axis=0)) if len(logs) else (np.zeros(3), np.zeros(3))


def _pack_palette(splats: SplatArrays, max_entries: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """(image of the palette, bytes [N, 3] of labels, metadata)."""
    n, k = splats.shN.shape[:2]
    size = 2 ** int(np.clip(np.log2(max(n / _SPLATS_AN_ENTRY, 1)), *_PALETTE_BITS))
    entries, labels = palette(splats.shN.reshape(n, 3 * k), min(size, max_entries))
    codes = codebook(entries)
    image = np.zeros((max(1, ceil_div(len(entries), _ROW)), _ROW, k, 3), np.uint8)
    image.reshape(-1, k, 3)[: len(entries)] = nearest_codes(entries, codes).reshape(-1, k, 3)
    rows = np.stack([labels & 255, labels >> 8, np.zeros_like(labels)], axis=1).astype(np.uint8)
    meta = {
        "count": len(entries),
        "bands": splats.sh_degree,
        "codebook": codes.tolist(),
        "files": ["shN_centroids.webp", "shN_labels.webp"],
    }
    return image.reshape(len(image), _ROW * k, 3), rows, meta


def _palette(file: zipfile.ZipFile, meta: Any, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(coefficients float32 [P, K, 3] of the entries, index [N] of each splat's entry)."""
    pixels = read_image(file, _file(meta, 0), MAX_ENTRIES * k)[:, :3]
    rows = read_pixels(file, _file(meta, 1), n)
    labels = rows[:, 0] + (rows[:, 1].astype(np.uint16) << 8)
    if len(pixels) % k or labels.max(initial=0) >= len(pixels) // k:
        raise ValueError(f"its palette of {len(pixels)} pixels does not hold all entries that splats name")
    return _codes(meta)[pixels.reshape(-1, k, 3)], labels


def _codes(meta: Any) -> np.ndarray:
    return numbers(meta, "codebook", CODES).astype(np.float32)


def _file(meta: Any, number: int) -> str:
    """Name of an image."""
    name: str = entry(entry(meta, "files", list), number, str, name="image")
    return name

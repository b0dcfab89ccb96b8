"""PlayCanvas' compressed PLY: four 32-bit words per splat, relative to the bounds of its chunk of 256 splats.

Elements: `chunk` has the bounds of position, log scale and colour as floats. `vertex` has position and log scale in 11,
10 and 11 bits; 2 bits for the index of the quaternion's largest component, then the other three in 10 bits each; colour
and opacity in 8 bits each. The first value is in the highest bits. `sh` has one byte per coefficient, from -4 to 4.
Older files have no bounds for the colour, which is then 0 to 1.
"""

import dataclasses
from pathlib import Path

import numpy as np
import plyfile

from splat_cli.errors import FormatError
from splat_cli.gaussians.arrays import SH_C0, SplatArrays
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
from splat_cli.gaussians.ply import finite_splats, is_antialiased, splat_comments, stated_origin
from splat_cli.io.files import regular, replacing
from splat_cli.io.ply_header import MAX_HEADER_BYTES, check_header, damage_of, header_comments

_CHUNK = 256
_WORDS = tuple(f"packed_{name}" for name in ("position", "rotation", "scale", "color"))
_POSITION, _SCALE, _COLOR = (
    tuple(f"{end}_{name}" for end in ("min", "max") for name in names)
    for names in (("x", "y", "z"), ("scale_x", "scale_y", "scale_z"), ("r", "g", "b"))
)
_MAX_LOG_SCALE = 20.0
_SH_RANGE = 8.0


def is_compressed_ply(path: Path) -> bool:
    """Whether the file has the header of a compressed PLY; False for unreadable files."""
    try:
        with regular(path).open("rb") as file:
            return b"packed_position" in file.read(MAX_HEADER_BYTES).partition(b"end_header")[0]
    except OSError:
        return False


def num_cut(splats: SplatArrays) -> int:
    """Number of splats whose longest axis is out of the range of the format."""
    return int((np.abs(splats.log_scales.max(axis=1, initial=-np.inf)) > _MAX_LOG_SCALE).sum())


def write_compressed_ply(path: Path, splats: SplatArrays) -> None:
    """Write the splats in Morton order, so that chunks are compact."""
    splats = in_morton_order(splats)
    n, k = splats.shN.shape[:2]
    color = 0.5 + SH_C0 * splats.sh0
    log_scales = np.clip(splats.log_scales, -_MAX_LOG_SCALE, _MAX_LOG_SCALE)
    bounds = [_bounds(values) for values in (splats.means, log_scales, color)]
    means, scales, colors = (_fractions(v, b) for v, b in zip((splats.means, log_scales, color), bounds, strict=True))
    largest, three = smallest_three(unit_quats(splats.quats))
    chunk_rows = np.concatenate([b for pair in bounds for b in pair], axis=1).astype("<f4", order="C")
    words = (
        _pack(means, (11, 10, 11)),
        largest << 30 | _pack(0.5 + 0.5 * three, (10, 10, 10)),
        _pack(scales, (11, 10, 11)),
        _pack(colors, (8, 8, 8)) << 8 | opacity_bytes(splats),
    )
    tables = {
        "chunk": chunk_rows.view([(name, "<f4") for name in (*_POSITION, *_SCALE, *_COLOR)])[:, 0],
        "vertex": np.stack(words, axis=1).astype("<u4", order="C").view([(name, "<u4") for name in _WORDS])[:, 0],
    }
    if k:
        coefficients = np.clip(splats.shN.transpose(0, 2, 1).reshape(n, 3 * k), -_SH_RANGE, _SH_RANGE)
        levels = np.ascontiguousarray(to_bytes(np.floor(256 * (coefficients / _SH_RANGE + 0.5))))
        tables["sh"] = levels.view([(f"f_rest_{i}", "u1") for i in range(3 * k)])[:, 0]
    comments = {"vertex": splat_comments(splats)}
    elements = [
        plyfile.PlyElement.describe(table, name, comments=comments.get(name, [])) for name, table in tables.items()
    ]
    with replacing(path) as temporary:
        plyfile.PlyData(elements, byte_order="<").write(str(temporary))


def read_compressed_ply(path: Path) -> SplatArrays:
    """Read the splats in the order of the file. FormatError if it is damaged or not a compressed PLY."""
    check_header(path, "a compressed splat PLY")
    try:
        data = plyfile.PlyData.read(str(path))
    except (plyfile.PlyParseError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path} is not a readable PLY ({damage_of(error)}); it is damaged: export it again"
        ) from error
    tables = {element.name: element.data for element in data.elements}
    n, num_sh = _check(path, tables)
    comments = header_comments(path)
    has_colors = _COLOR[0] in (tables["chunk"].dtype.names or ())

    def unpack(rows: slice) -> SplatArrays:
        chunks = tables["chunk"][np.arange(rows.start, rows.stop) // _CHUNK]
        position, rotation, scale, color = (tables["vertex"][name][rows].astype(np.uint32) for name in _WORDS)
        colors = _unpack(color >> 8, (8, 8, 8))
        colors = _between(chunks, _COLOR, colors) if has_colors else colors
        sh = np.empty((len(color), num_sh), np.float32)
        for i in range(num_sh):
            sh[:, i] = tables["sh"][f"f_rest_{i}"][rows]
        return SplatArrays(
            means=_between(chunks, _POSITION, _unpack(position, (11, 10, 11))).astype(np.float32),
            log_scales=_between(chunks, _SCALE, _unpack(scale, (11, 10, 11))).astype(np.float32),
            quats=from_smallest_three(rotation >> 30, 2 * _unpack(rotation, (10, 10, 10)) - 1),
            logit_opacities=logits_from_bytes(color & 255),
            sh0=((colors - 0.5) / SH_C0).astype(np.float32),
            shN=_sh_from_bytes(sh).reshape(len(sh), 3, num_sh // 3).transpose(0, 2, 1),
        )

    with np.errstate(over="ignore", invalid="ignore"):  # bounds that are not finite: dropped
        splats = finite_splats(unpack_in_blocks(n, num_sh // 3, unpack, is_antialiased(comments)))
    return dataclasses.replace(splats, origin=stated_origin(comments))


def _check(path: Path, tables: dict[str, np.ndarray]) -> tuple[int, int]:
    """(number of splats, SH bytes per splat); FormatError if a part is missing."""
    properties = {name: set(table.dtype.names or ()) for name, table in tables.items()}
    has_words = {*_WORDS} <= properties.get("vertex", set())
    if not (has_words and {*_POSITION, *_SCALE} <= properties.get("chunk", set())):
        raise FormatError(f"{path} is not a compressed splat PLY: it lacks chunks or packed vertices; export it again")
    packed = [tables["vertex"][name] for name in _WORDS] + [tables["sh"][name] for name in properties.get("sh", ())]
    if any(column.dtype.kind not in "iu" for column in packed):
        raise FormatError(f"{path} has packed properties that are not whole numbers; export it again")
    if properties["chunk"] & {*_COLOR} and not {*_COLOR} <= properties["chunk"]:
        raise FormatError(f"{path} has only some of the bounds of colour; export it again")
    n, num_sh = len(tables["vertex"]), len(properties.get("sh", ()))
    wanted = {f"f_rest_{i}" for i in range(num_sh)}
    if num_sh and (len(tables["sh"]) != n or properties["sh"] != wanted or num_sh not in (9, 24, 45)):
        raise FormatError(f"{path} has spherical harmonics that do not fit its {n} splats; export it again")
    if len(tables["chunk"]) * _CHUNK < n:
        raise FormatError(f"{path} has {len(tables['chunk'])} chunks, too few for {n} splats; export it again")
    return n, num_sh


def _bounds(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(minimum, maximum) float32 [C, 3] of each chunk of values [N, 3]."""
    starts = np.arange(0, len(values), _CHUNK)
    if not len(starts):
        return np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)
    low, high = (np.asarray(f.reduceat(values, starts, axis=0), np.float32) for f in (np.minimum, np.maximum))
    return low, high


def _fractions(values: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Position of values [N, 3] between the bounds of their chunk, 0 to 1."""
    low, high = (bound[np.arange(len(values)) // _CHUNK].astype(np.float64) for bound in bounds)
    return np.clip((values - low) / np.where(high > low, high - low, 1), 0, 1)


def _between(chunks: np.ndarray, names: tuple[str, ...], fractions: np.ndarray) -> np.ndarray:
    """The inverse of `_fractions`, float64 [N, 3]."""
    low, high = (np.stack([chunks[name].astype(np.float64) for name in part], 1) for part in (names[:3], names[3:]))
    return low * (1 - fractions) + high * fractions


def _pack(fractions: np.ndarray, bits: tuple[int, ...]) -> np.ndarray:
    """Words uint32 [N] of fractions [N, 3], the first in the highest bits."""
    word = np.zeros(len(fractions), np.uint32)
    for column, width in zip(fractions.T, bits, strict=True):
        levels = 2**width - 1
        word = word << width | np.clip(np.rint(column * levels), 0, levels).astype(np.uint32)
    return word


def _unpack(word: np.ndarray, bits: tuple[int, int, int]) -> np.ndarray:
    """The inverse of `_pack`, float64 [N, 3]."""
    shifts = (bits[1] + bits[2], bits[2], 0)
    return np.stack([(word >> s & (2**b - 1)) / (2**b - 1) for s, b in zip(shifts, bits, strict=True)], axis=1)


def _sh_from_bytes(levels: np.ndarray) -> np.ndarray:
    """Coefficients from bytes: interval centres, and the exact ends of the range."""
    fraction = np.where(levels == 0, 0, np.where(levels == 255, 1, (levels + 0.5) / 256))
    return ((fraction - 0.5) * _SH_RANGE).astype(np.float32)

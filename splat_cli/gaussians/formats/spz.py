"""Niantic's .spz: writes versions 3 and 4, reads versions 2 to 4.

Axes: spz_axes.py. Positions are fixed-point numbers of 24 bits whose
fraction has as many bits as the header says; everything else is bytes. From version 3 on a quaternion is its
three smallest components in 32 bits, in version 2 its x, y and z in a byte each.
"""

from pathlib import Path

import numpy as np

from splat_cli.gaussians.arrays import MAX_SH_DEGREE, SplatArrays
from splat_cli.gaussians.formats.blocks import unpack_in_blocks
from splat_cli.gaussians.formats.quantize import (
    from_smallest_three,
    logits_from_bytes,
    opacity_bytes,
    smallest_three,
    to_bytes,
    unit_quats,
)
from splat_cli.gaussians.formats.spz_axes import axes_record, from_ply_axes, to_ply_axes
from splat_cli.gaussians.formats.spz_streams import SpzHeader, pack_streams, read_streams
from splat_cli.gaussians.ply import finite_splats
from splat_cli.io.files import replacing

_LARGEST = 2**23
_MIN_LOG_SCALE, _MAX_LOG_SCALE = -10.0, 5.9375
_COLOR_SCALE = 0.15
_SH_STEPS = np.array([2] * 3 + [4] * 12)[:, None]
"""Coefficients are rounded to multiples, for gzip to find repetition: 7 bits in the first band and 6 in the others.

Niantic's own writer keeps 5 and 4, which costs 0.6 dB where this costs 0.1, for files two thirds as large.
"""


def write_spz(path: Path, splats: SplatArrays, axes: str = "RUB") -> None:
    """Write a file; positions have as many fractional bits as the largest coordinate allows.

    Coordinates are cut to 2^23 units, SH coefficients to -1..1, log scales to -10..5.9. axes: RUB or RDF; the
    file states them. RUB is written as version 3, which all programs read; others as version 4, since Niantic's library
    finds the statement there only.
    """
    splats = from_ply_axes(splats, axes)
    n, k = splats.shN.shape[:2]
    bits = _fraction_bits(splats.means)
    fixed = np.clip(np.rint(splats.means * 2.0**bits), -_LARGEST, _LARGEST - 1).astype("<i4")
    steps = _SH_STEPS[:k]
    header = SpzHeader(3 if axes == "RUB" else 4, n, splats.sh_degree, bits, splats.antialiased)
    columns = (
        fixed.view(np.uint8).reshape(n, 3, 4)[:, :, :3],  # the low three bytes
        opacity_bytes(splats),
        to_bytes(255 * (0.5 + _COLOR_SCALE * splats.sh0.astype(np.float64))),
        to_bytes(16 * (splats.log_scales.astype(np.float64) - _MIN_LOG_SCALE)),
        _pack_quats(splats.quats),
        to_bytes(np.rint(128 * (1 + np.clip(splats.shN, -2, 2)) / steps) * steps),
    )
    with replacing(path) as temporary:
        temporary.write_bytes(pack_streams(header, columns, axes_record(axes)))


def num_cut(splats: SplatArrays) -> int:
    """Number of splats that the format cannot hold: too far from the origin, or their longest axis out of its range."""
    longest = splats.log_scales.max(axis=1, initial=-np.inf)
    is_outside = (longest < _MIN_LOG_SCALE) | (longest > _MAX_LOG_SCALE)
    return int((is_outside | (np.abs(splats.means) > _LARGEST).any(axis=1)).sum())


def steps(splats: SplatArrays) -> np.ndarray:
    """Distance [N] between neighbouring coordinates in the file, world units."""
    return np.full(len(splats), 2.0 ** -_fraction_bits(splats.means))


def read_spz(path: Path, axes: str = "RUB") -> SplatArrays:
    """Read versions 2 to 4; SH coefficients of degree 4 are dropped. FormatError if damaged or of another version."""
    header, streams = read_streams(path)
    streams[-1] = streams[-1][:, : 3 * ((MAX_SH_DEGREE + 1) ** 2 - 1)]  # colour channels vary fastest
    k = streams[-1].shape[1] // 3

    def unpack(rows: slice) -> SplatArrays:
        positions, alphas, colors, scales, quats, sh = (stream[rows] for stream in streams)
        stored = SplatArrays(
            means=_unpack_fixed(positions, header.fraction_bits),
            log_scales=scales.astype(np.float32) / 16 + _MIN_LOG_SCALE,
            quats=_unpack_quats(quats),
            logit_opacities=logits_from_bytes(alphas[:, 0]),
            sh0=(colors.astype(np.float32) / 255 - 0.5) / np.float32(_COLOR_SCALE),
            shN=(sh.reshape(len(sh), k, 3).astype(np.float32) - 128) / 128,
        )
        return to_ply_axes(stored, header.axes or axes)

    splats = finite_splats(unpack_in_blocks(header.num_splats, k, unpack, header.antialiased))
    if header.sh_degree > MAX_SH_DEGREE:
        splats.dropped_sh_degree = header.sh_degree
    return splats


def stated_axes_of(path: Path) -> str | None:
    """The axes that the file states, of AXES, or None. Raises FormatError."""
    return read_streams(path)[0].axes


def _fraction_bits(means: np.ndarray) -> int:
    """Maximum number of fractional bits with which the largest coordinate fits into 24 bits."""
    largest = float(np.abs(means).max(initial=1e-3))
    return int(np.clip(np.floor(np.log2((_LARGEST - 1) / largest)), 0, 23))


def _unpack_fixed(positions: np.ndarray, bits: int) -> np.ndarray:
    """Coordinates float32 [N, 3] of bytes [N, 9]."""
    wide = np.zeros((len(positions), 3, 4), np.uint8)
    wide[:, :, 1:] = positions.reshape(-1, 3, 3)  # in the upper bytes: the shift extends the sign
    return ((wide.view("<i4")[:, :, 0] >> 8) / 2.0**bits).astype(np.float32)


def _pack_quats(quats: np.ndarray) -> np.ndarray:
    """Words [N] of quaternions wxyz [N, 4]: index of the largest in x y z w, and three times a sign and 9 bits."""
    word, three = smallest_three(np.roll(unit_quats(quats), -1, axis=1))
    for column in three.T:
        word = word << 10 | (column < 0).astype(np.uint32) << 9 | np.rint(511 * np.abs(column)).astype(np.uint32)
    return word.astype("<u4")


def _unpack_quats(content: np.ndarray) -> np.ndarray:
    """Quaternions wxyz float32 [N, 4] of bytes [N, 4] (from version 3 on) or [N, 3] (version 2)."""
    if content.shape[1] == 3:
        xyz = content / np.float32(127.5) - 1
        quats = np.concatenate([xyz, np.sqrt(np.maximum(0, 1 - (xyz**2).sum(1, keepdims=True)))], 1)
    else:
        word = np.ascontiguousarray(content).view("<u4")[:, 0]
        fields = word[:, None] >> np.array([20, 10, 0], np.uint32)
        three = np.where(fields >> 9 & 1, -1.0, 1.0) * (fields & 511) / 511
        quats = from_smallest_three(word >> 30, three)
    return np.roll(quats, 1, axis=1).astype(np.float32)

"""Splats as PLY files, with the properties of the INRIA code in their order."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import plyfile

from splat_cli.errors import FormatError
from splat_cli.files import replacing
from splat_cli.gaussians.arrays import SH_DEGREE_FROM_COEFFICIENTS, SplatArrays
from splat_cli.ply_header import check_header

MEANS = ("x", "y", "z")
NORMALS = ("nx", "ny", "nz")
SH0 = tuple(f"f_dc_{i}" for i in range(3))
SCALES = tuple(f"scale_{i}" for i in range(3))
QUATS = tuple(f"rot_{i}" for i in range(4))
_OPAQUE_LOGIT = 16.0
"""The logit of 1 - 1e-7, the last opacity before 1 in float32."""
_ANTIALIASED = "antialiased:"
"""Prefix of the comment; the rest is for people."""


def write_ply(path: str | Path, splats: SplatArrays, durable: bool = False) -> None:
    """Write a binary little-endian PLY, all float32; atomic. DiskError as in `replacing`.

    Normals are zero: some readers rely on the order of properties. A comment marks antialiased splats; it follows the
    number of vertices, where all readers expect comments.
    """
    n, k = splats.shN.shape[:2]
    names = (*MEANS, *NORMALS, *SH0, *_sh_rest(3 * k), "opacity", *SCALES, *QUATS)
    columns = (
        splats.means,
        np.zeros((n, 3), np.float32),
        splats.sh0,
        splats.shN.transpose(0, 2, 1).reshape(n, 3 * k),  # all coefficients of red, then of green, then of blue
        splats.logit_opacities[:, None],
        splats.log_scales,
        splats.quats,
    )
    table = np.concatenate(columns, axis=1, dtype=np.dtype("<f4"))
    rows = table.view([(name, "<f4") for name in names])[:, 0]
    vertices = plyfile.PlyElement.describe(rows, "vertex", comments=antialias_comments(splats))
    with replacing(Path(path), durable) as beside:
        plyfile.PlyData([vertices], byte_order="<").write(str(beside))


def count_splats(path: Path) -> int:
    """Number of splats in a PLY that this program has written, from its header. FormatError if that is damaged."""
    return check_header(path, "a splat PLY").get("vertex", 0)


def read_ply(path: str | Path) -> SplatArrays:
    """Read splats from a PLY of any encoding, property order and float width; other properties are ignored.

    Non-finite splats are dropped and counted. FormatError if the file is damaged or has no splats.
    """
    path = Path(path)
    check_header(path, "a splat PLY")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32: infinite, and dropped
            element = plyfile.PlyData.read(str(path))["vertex"]
    except KeyError as error:
        raise FormatError(f"{path} holds no vertices; a splat PLY has an element named vertex") from error
    except (plyfile.PlyParseError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path} is not a readable PLY ({error}); it is truncated or damaged: export it again"
        ) from error
    vertices = element.data
    names = vertices.dtype.names or ()
    num_rest = sum(name.startswith("f_rest_") for name in names)
    _check_properties(path, names, num_rest)

    def columns(wanted: Iterable[str]) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # as above
            stacked = [vertices[name].astype(np.float32) for name in wanted]
        return np.stack(stacked, axis=1) if stacked else np.zeros((len(vertices), 0), np.float32)

    rest = columns(_sh_rest(num_rest)).reshape(len(vertices), 3, num_rest // 3).transpose(0, 2, 1)
    splats = SplatArrays(
        means=columns(MEANS),
        log_scales=columns(SCALES),
        quats=columns(QUATS),
        logit_opacities=_finite_where_opaque(columns(["opacity"])[:, 0]),
        sh0=columns(SH0),
        shN=np.ascontiguousarray(rest),
        antialiased=is_antialiased(element),
    )
    return finite_splats(splats)


def antialias_comments(splats: SplatArrays) -> list[str]:
    """Comments of an element that mark antialiased splats."""
    seen = f"{_ANTIALIASED} seen by a pixel of variance 0.1, which keeps what a splat covers (Mip-Splatting)"
    return [seen] if splats.antialiased else []


def is_antialiased(element: plyfile.PlyElement) -> bool:
    """Whether the element's comments say that its splats are antialiased."""
    return any(comment.startswith(_ANTIALIASED) for comment in element.comments)


def _check_properties(path: Path, names: tuple[str, ...], num_rest: int) -> None:
    """FormatError if a required property is missing."""
    if "packed_position" in names:
        raise FormatError(f"{path} is a compressed PLY; convert it to a standard one first (splat export does)")
    needed = (*MEANS, *SH0, *_sh_rest(num_rest), "opacity", *SCALES, *QUATS)
    missing = [name for name in needed if name not in names]
    if missing:
        raise FormatError(
            f"{path} is not a splat PLY: its vertices have no {', '.join(missing)}; give a file "
            "exported by a Gaussian splatting program"
        )
    if num_rest % 3 or num_rest // 3 not in SH_DEGREE_FROM_COEFFICIENTS:
        raise FormatError(f"{path} has {num_rest} f_rest properties; 0, 9, 24 or 45 are expected: export it again")


def _finite_where_opaque(logits: np.ndarray) -> np.ndarray:
    """Logits [N] with a large number for infinity, which programs write for an opacity byte of 255."""
    return np.where(np.isposinf(logits), np.float32(_OPAQUE_LOGIT), logits)


def finite_splats(splats: SplatArrays) -> SplatArrays:
    """The splats without non-finite numbers."""
    n = len(splats)
    finite = [np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in splats.arrays().values()]
    keep = np.logical_and.reduce(finite)
    if keep.all():
        return splats
    kept = splats.select(keep)
    kept.num_dropped = n - len(kept)
    return kept


def _sh_rest(count: int) -> tuple[str, ...]:
    return tuple(f"f_rest_{i}" for i in range(count))

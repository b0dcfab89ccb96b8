"""Splats as PLY files: properties in the order of the INRIA code, comments on antialiasing and origin."""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import plyfile

from splat_cli.device import num_cores
from splat_cli.errors import FormatError
from splat_cli.gaussians.arrays import MAX_FILE_SH_DEGREE, MAX_SH_DEGREE, SH_C0, SplatArrays
from splat_cli.io.files import replacing
from splat_cli.io.ply_header import check_header, color_levels, damage_of, header_comments, plain_name

MEANS = ("x", "y", "z")
NORMALS = ("nx", "ny", "nz")
SH0 = tuple(f"f_dc_{i}" for i in range(3))
SCALES = tuple(f"scale_{i}" for i in range(3))
QUATS = tuple(f"rot_{i}" for i in range(4))
_RGB = ("red", "green", "blue")
_FLATNESS = 7.0
"""Logarithm of the ratio of a flat splat's shorter axis to its third axis, which files of 2D splats lack."""
CHUNK = 1 << 14
"""Splats converted at a time: their rows fit into the caches of a processor."""
_REST_OF_DEGREE = {3 * ((degree + 1) ** 2 - 1): degree for degree in range(MAX_FILE_SH_DEGREE + 1)}
"""Number of f_rest properties -> SH degree."""
_OF_CAMERA = {"face", "extrinsic", "intrinsic", "image_size", "frame", "disparity", "version"}
"""Elements that do not change splats: no faces, and the camera of SHARP, which makes splats from one photograph."""
_OPAQUE_LOGIT = 16.0
"""The logit of 1 - 1e-7, the last opacity before 1 in float32."""


def write_ply(path: str | Path, splats: SplatArrays, durable: bool = False) -> None:
    """Write a binary little-endian PLY, all float32; atomic. DiskError as in `replacing`.

    Normals are zero: some readers rely on the order of properties. Comments mark antialiased splats and state
    their origin; they follow the number of vertices, where all readers expect comments.
    """
    with replacing(Path(path), durable) as temporary, temporary.open("wb") as file:
        file.write(splat_header(splats))
        for first in range(0, len(splats), CHUNK):
            file.write(splat_rows(splats.select(slice(first, first + CHUNK))).data)


def splat_header(splats: SplatArrays, num: int | None = None) -> bytes:
    """Header of a PLY with the properties of `splats`. num: number of splats in it, by default len(splats)."""
    lines = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(splats) if num is None else num}",
        *(f"comment {comment}" for comment in splat_comments(splats)),
        *(f"property float {name}" for name in _properties(3 * splats.shN.shape[1])),
        "end_header",
    ]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def splat_rows(splats: SplatArrays) -> np.ndarray:
    """The splats as rows of a PLY, little-endian float32 [N, properties]."""
    n, k = splats.shN.shape[:2]
    columns = (
        splats.means,
        np.zeros((n, len(NORMALS)), np.float32),
        splats.sh0,
        splats.shN.transpose(0, 2, 1).reshape(n, 3 * k),  # all coefficients of red, then of green, then of blue
        splats.logit_opacities[:, None],
        splats.log_scales,
        splats.quats,
    )
    return np.concatenate(columns, axis=1, dtype=np.dtype("<f4"))


def ply_bytes(num_splats: int, rows: int) -> int:
    """Size of a PLY of splats with `rows` parameters each, without its header."""
    return 4 * num_splats * (rows + len(NORMALS))


def count_splats(path: Path) -> int:
    """Number of splats in a PLY that this program wrote, from its header. FormatError if the header is damaged."""
    return check_header(path, "a splat PLY").get("vertex", 0)


def read_ply(path: str | Path, first: int = 0) -> SplatArrays:
    """Read splats from a PLY of any encoding, property order and float width; `unread` names other properties
    and elements. first: number of splats at the beginning of the file to leave out.

    Red, green and blue may replace f_dc, as nerfstudio writes with `ns-export gaussian-splat
    --ply-color-mode rgb`. Without scale_2, as in files of 2D Gaussian splatting (Huang et al. 2024), splats are flat.
    CloudCompare's names (scalar_f_dc_0) are read, too. Non-finite splats are dropped and counted, and SH coefficients
    of degree 4, which gsplat writes, are dropped. FormatError if the file is damaged or has no splats.
    """
    path = Path(path)
    elements = check_header(path, "a splat PLY").keys() - {"vertex"} - _OF_CAMERA
    vertices, comments = _with_plain_names(_read_vertices(path)[first:]), header_comments(path)
    names = vertices.dtype.names or ()
    num_rest = sum(name.startswith("f_rest_") for name in names)
    _check_properties(path, names, num_rest)

    scales, colors = SCALES if SCALES[2] in names else SCALES[:2], SH0 if SH0[0] in names else _RGB
    means, log_scales, quats, opacity, sh0, rest = _columns(
        vertices, (MEANS, scales, QUATS, ("opacity",), colors, _sh_rest_read(num_rest))
    )
    if scales != SCALES:
        log_scales = np.column_stack([log_scales, log_scales.min(axis=1) - np.float32(_FLATNESS)])
    if colors == _RGB:
        sh0 = (color_levels([vertices[name] for name in _RGB]) / 255 - np.float32(0.5)) / np.float32(SH_C0)
    by_coefficient = rest.reshape(len(vertices), 3, rest.shape[1] // 3).transpose(0, 2, 1)
    splats = SplatArrays(
        means,
        log_scales,
        quats,
        finite_where_opaque(opacity[:, 0]),
        sh0,
        np.ascontiguousarray(by_coefficient),
        antialiased=is_antialiased(comments),
        origin=stated_origin(comments),
        dropped_sh_degree=_REST_OF_DEGREE[num_rest] if rest.shape[1] < num_rest else 0,
        unread=tuple(sorted({*names, *elements} - {*_properties(num_rest), *_RGB, "alpha"})),
    )
    return finite_splats(splats)


def _read_vertices(path: Path) -> np.ndarray:
    """The element `vertex` of a PLY, a structured array [N]. FormatError if it is missing or damaged."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32: infinite, dropped later
            vertices: np.ndarray = plyfile.PlyData.read(str(path))["vertex"].data
    except KeyError as error:
        raise FormatError(f"{path} has no vertices; a splat PLY has an element named vertex") from error
    except (plyfile.PlyParseError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path} is not a readable PLY ({damage_of(error)}); it is truncated or damaged: export it again"
        ) from error
    return vertices


def _with_plain_names(vertices: np.ndarray) -> np.ndarray:
    """The structured array [N], without CloudCompare's prefixes of property names."""
    names = vertices.dtype.names or ()
    plain = [plain_name(name) for name in names]
    if SH0[0] in names or SH0[0] not in plain or len({*plain}) < len(plain):
        return vertices
    return vertices.view([(new, vertices.dtype[name]) for new, name in zip(plain, names, strict=True)])


def _columns(vertices: np.ndarray, groups: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """Tables float32 [N, properties], one per group of properties of a structured array [N], in a single pass."""
    tables = [np.empty((len(vertices), len(names)), np.float32) for names in groups]

    def copy(first: int) -> None:
        part = vertices[first : first + CHUNK]
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32: infinite, dropped later
            for table, names in zip(tables, groups, strict=True):
                for number, name in enumerate(names):
                    table[first : first + len(part), number] = part[name]

    with ThreadPoolExecutor(num_cores()) as threads:
        list(threads.map(copy, range(0, len(vertices), CHUNK)))
    return tables


def _check_properties(path: Path, names: tuple[str, ...], num_rest: int) -> None:
    """FormatError if a required property is missing."""
    if "packed_position" in names:
        raise FormatError(f"{path} is a compressed PLY; convert it to a standard one first (splat export does)")
    colors = _RGB if _RGB[0] in names and SH0[0] not in names else SH0
    needed = (*MEANS, *colors, *_sh_rest(num_rest), "opacity", *SCALES[:2], *QUATS)
    missing = [name for name in needed if name not in names]
    if missing:
        raise FormatError(
            f"{path} is not a splat PLY: its vertices have no {', '.join(missing)}; give a file "
            "exported by a Gaussian splatting program"
        )
    if num_rest not in _REST_OF_DEGREE:
        raise FormatError(f"{path} has {num_rest} f_rest properties; 0, 9, 24, 45 or 72 are expected: export it again")


def finite_where_opaque(logits: np.ndarray) -> np.ndarray:
    """Logits [N] with a large number instead of infinity, which programs write for an opacity byte of 255."""
    return np.where(np.isposinf(logits), np.float32(_OPAQUE_LOGIT), logits)


def finite_splats(splats: SplatArrays) -> SplatArrays:
    """The splats without non-finite numbers."""
    n = len(splats)
    parts = [splats.select(slice(first, first + CHUNK)) for first in range(0, n, CHUNK)]
    keep = np.concatenate([_finite_rows(part) for part in parts]) if parts else np.zeros(0, bool)
    if keep.all():
        return splats
    kept = splats.select(keep)
    kept.num_dropped = n - len(kept)
    return kept


def _finite_rows(splats: SplatArrays) -> np.ndarray:
    """Mask [N] of the splats without non-finite numbers."""
    arrays = splats.arrays().values()
    if all(np.isfinite(array).all() for array in arrays):
        return np.ones(len(splats), bool)
    return np.logical_and.reduce([np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in arrays])


def _properties(num_rest: int) -> tuple[str, ...]:
    return (*MEANS, *NORMALS, *SH0, *_sh_rest(num_rest), "opacity", *SCALES, *QUATS)


def _sh_rest(count: int) -> tuple[str, ...]:
    return tuple(f"f_rest_{i}" for i in range(count))


def _sh_rest_read(count: int) -> tuple[str, ...]:
    """Names of the f_rest properties up to degree MAX_SH_DEGREE; all `count` hold channel after channel."""
    per_channel = count // 3
    kept = min(per_channel, (MAX_SH_DEGREE + 1) ** 2 - 1)
    return tuple(f"f_rest_{channel * per_channel + i}" for channel in range(3) for i in range(kept))


_ANTIALIASED = "antialiased:"
_ANTIALIASED_SPLATS = f"{_ANTIALIASED} seen by a pixel of variance 0.1, which keeps what a splat covers (Mip-Splatting)"
"""Comment of antialiased splats; only the prefix is parsed."""
_RENDER_MODE = "SplatRenderMode: mip"
"""Brush's comment of antialiased splats; PlayCanvas's splat-transform reads and writes it, too."""
_ORIGIN = "subtracted_origin:"
"""Prefix of the comment with the origin x y z."""


def splat_comments(splats: SplatArrays) -> list[str]:
    """Header comments that mark antialiased splats and give their origin, unless it is zero."""
    comments = []
    if splats.antialiased:
        comments += [_RENDER_MODE, _ANTIALIASED_SPLATS]
    if any(splats.origin):
        comments.append(" ".join([_ORIGIN, *map(repr, map(float, splats.origin))]))
    return comments


def is_antialiased(comments: Iterable[str]) -> bool:
    """Whether comments of this program, Brush or Postshot mark splats as antialiased; the last one counts."""
    found = False
    for comment in comments:
        name, _, value = comment.strip().partition(" ")
        match name.lower():
            case "antialiased:":
                found = True
            case "splatrendermode:":  # from Brush and splat-transform: default, mip or 2dgs
                found = value.strip().lower() == "mip"
            case "antialiased":  # from Postshot: 0 or 1
                found = value.strip() == "1"
    return found


def stated_origin(comments: Iterable[str]) -> tuple[float, float, float]:
    """The origin in the comments (`SplatArrays.origin`); zeros if it is missing or invalid."""
    for comment in comments:
        if comment.startswith(_ORIGIN):
            try:
                x, y, z = map(float, comment[len(_ORIGIN) :].split())
            except ValueError:
                continue
            if all(map(math.isfinite, (x, y, z))):
                return x, y, z
    return 0.0, 0.0, 0.0


def origin_of_file(path: Path) -> tuple[float, float, float]:
    """The origin in the header of a PLY of splats; zeros for other files."""
    return stated_origin(header_comments(path))

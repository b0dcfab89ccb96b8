"""Splats on the host: arrays of raw parameters, and attributes derived from them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import DeviceArray
from splat_cli.errors import ShapeError, escape_unprintable

SH_C0 = 0.28209479177387814
"""The constant spherical harmonic: colour = 0.5 + SH_C0 * sh0."""
SH_DEGREE_FROM_COEFFICIENTS = {0: 0, 3: 1, 8: 2, 15: 3}
"""Number of coefficients per channel, without the constant one -> degree."""
_SHOWN = 3  # names, in warnings
MAX_SH_DEGREE = 3
"""The highest SH degree that is trained and rendered."""
MAX_FILE_SH_DEGREE = 4
"""The highest SH degree of files (gsplat's PLY, Niantic's SPZ); coefficients above MAX_SH_DEGREE are dropped."""


@dataclass(eq=False)
class SplatArrays:
    """Raw parameters of N splats, float32: as optimised, before exp, sigmoid and normalisation.

    num_dropped: number of non-finite splats dropped on reading. dropped_sh_degree: SH degree of the file if it is
    above MAX_SH_DEGREE, else 0. antialiased: whether the splats were trained with opacity compensation. origin:
    offset subtracted from geographic coordinates (scene/georeferenced.py), zeros if unknown. ShapeError if
    shapes differ.
    """

    means: np.ndarray
    """[N, 3] world units"""
    log_scales: np.ndarray
    """[N, 3] natural logarithm of the standard deviations in world units"""
    quats: np.ndarray
    """[N, 4] w x y z, of any length"""
    logit_opacities: np.ndarray
    """[N]"""
    sh0: np.ndarray
    """[N, 3]"""
    shN: np.ndarray
    """[N, K, 3], K in 0, 3, 8, 15"""
    num_dropped: int = 0
    dropped_sh_degree: int = 0
    antialiased: bool = False
    features: np.ndarray | None = None
    """[N, F] inputs of a colour field's network; None: F = 0"""
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    unread: tuple[str, ...] = ()
    """Names of properties of the file that have no meaning here, such as `filter_3D` of Mip-Splatting"""

    def __post_init__(self) -> None:
        n = len(self)
        k = self.shN.shape[1] if self.shN.ndim == 3 else -1
        expected = {
            "means": (n, 3),
            "log_scales": (n, 3),
            "quats": (n, 4),
            "logit_opacities": (n,),
            "sh0": (n, 3),
            "shN": (n, k, 3),
        }
        if self.features is not None:
            expected["features"] = (n, self.features.shape[-1] if self.features.ndim else 0)
        for name, shape in expected.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float32:
                raise ShapeError(f"{name} is {array.dtype} {list(array.shape)}, expected float32 {list(shape)}")
        if k not in SH_DEGREE_FROM_COEFFICIENTS:
            raise ShapeError(f"shN holds {k} coefficients per channel, expected 0, 3, 8 or 15")

    def __len__(self) -> int:
        """The number of splats."""
        return len(self.means)

    @property
    def num_features(self) -> int:
        """Length of the feature vectors of a colour field; 0 without features."""
        return 0 if self.features is None else self.features.shape[1]

    @property
    def sh_degree(self) -> int:
        """Degree of the spherical harmonics, 0 to 3."""
        return SH_DEGREE_FROM_COEFFICIENTS[self.shN.shape[1]]

    def reading_notes(self, path: Path | str) -> list[str]:
        """Notes on data that was dropped when the splats were read from `path`, one line each."""
        notes = []
        if self.num_dropped:
            notes.append(f"left out {self.num_dropped:,} splats that are not finite")
        if self.dropped_sh_degree:
            notes.append(
                f"dropped spherical harmonics of degree {self.dropped_sh_degree}: "
                f"{MAX_SH_DEGREE} is the highest that is rendered"
            )
        if self.unread:
            shown = map(escape_unprintable, self.unread[:_SHOWN])
            notes.append(f"did not read {', '.join(shown)}, which may change how splats look")
        return [f"{path}: {note}" for note in notes]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def rows(self) -> list[np.ndarray]:
        """Views of the arrays as [N, number of scalars], in the order of the rows of `Splats`."""
        return [array.reshape(len(self), math.prod(array.shape[1:])) for array in self.arrays().values()]

    def parameter_rows(self) -> list[np.ndarray]:
        """Views of all scalars, [N] each, in the order of the rows of `Splats.params`; there must be no features."""
        return [row for table in self.rows() for row in table.T]

    def longest_axes(self) -> np.ndarray:
        """Standard deviation along the longest axis, float64 [N], world units; within the range of float32."""
        longest: np.ndarray = np.exp(np.clip(self.log_scales.max(axis=1), -80, 80).astype(np.float64))
        return longest

    def select(self, index: np.ndarray | slice) -> SplatArrays:
        """A subset of the splats. index: boolean mask [N], index array, or slice; a slice copies nothing."""
        chosen: dict[str, Any] = {name: array[index] for name, array in self.arrays().items()}
        return replace(self, **chosen)


def zero_splats(num: int, degree: int, num_features: int = 0) -> SplatArrays:
    """`num` splats of zeros, to be overwritten."""

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros((num, *shape), np.float32)

    return SplatArrays(
        zeros(3),
        zeros(3),
        zeros(4),
        zeros(),
        zeros(3),
        zeros((degree + 1) ** 2 - 1, 3),
        features=zeros(num_features) if num_features else None,
    )


def splat_bytes(degree: int) -> int:
    """Bytes of a splat of this SH degree in these arrays."""
    return 4 * (3 + 3 + 4 + 1 + 3 * (degree + 1) ** 2)


def rotations(xp: Any, quats: DeviceArray) -> DeviceArray:
    """Rotation matrices [K, 3, 3] of raw quaternions [4, K] (wxyz)."""
    w, x, y, z = quats / xp.maximum(xp.linalg.norm(quats, axis=0), 1e-12)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def limit_sh_degree(splats: SplatArrays, degree: int) -> SplatArrays:
    """The splats with spherical harmonics of at most `degree`; higher coefficients are dropped."""
    kept = (degree + 1) ** 2 - 1
    return dataclasses.replace(splats, shN=np.ascontiguousarray(splats.shN[:, :kept]))


def squarable(quats: np.ndarray) -> np.ndarray:
    """Quaternions [K, 4] of any length, normalised where float32 cannot hold the square of their length.

    Infinite ones stay: no picture shows their splats.
    """
    lengths = np.linalg.norm(quats.astype(np.float64), axis=1)
    is_odd = (lengths > 0) & ((lengths < 1e-15) | (lengths > 1e15)) & np.isfinite(lengths)
    if not is_odd.any():
        return quats
    scaled = quats / np.where(is_odd, lengths, 1.0)[:, None]
    return scaled.astype(np.float32)


def opacities(splats: SplatArrays) -> np.ndarray:
    """Opacity of each splat, 0 to 1, float64 [N]."""
    return np.exp(-np.logaddexp(0.0, -splats.logit_opacities.astype(np.float64)))


_OPTICAL_DEPTH = 0.5
"""Optical depth of a dense cell: 40 % opacity."""
_SIGMAS = 1.5
_MAX_CELLS = 1 << 20  # along an axis


def dense_cells(splats: SplatArrays, cell: float) -> np.ndarray:
    """Centres [P, 3], float32, of the dense cells of a grid with spacing `cell`, world units.

    A splat is sampled at seven points: its centre, and the ends of its axes at 1.5 standard deviations. Each point gets
    a seventh of its optical depth: opacity times area, divided by the area of a cell.
    """
    finite = np.isfinite(splats.means).all(axis=1) & np.isfinite(splats.log_scales).all(axis=1)
    means, scales = splats.means[finite].astype(np.float64), np.exp(np.minimum(splats.log_scales[finite], 20.0))
    with np.errstate(over="ignore", invalid="ignore"):
        axes = np.nan_to_num(rotations(np, splats.quats[finite].T)) * (_SIGMAS * scales)[:, None]  # axes in columns
    largest = np.sort(scales, axis=1)[:, 1:].prod(axis=1)
    depth = opacities(splats)[finite] * 2 * np.pi * largest / cell**2 / 7
    points = np.concatenate([means, *(means + sign * axes[:, :, k] for k in range(3) for sign in (-1, 1))])
    near = (np.abs(points) < _MAX_CELLS / 2 * cell).all(axis=1)
    indices = np.floor(points[near] / cell).astype(np.int64) + _MAX_CELLS // 2
    keys, inverse = np.unique(indices @ [_MAX_CELLS**2, _MAX_CELLS, 1], return_inverse=True)
    dense = keys[np.bincount(inverse, np.tile(depth, 7)[near], len(keys)) >= _OPTICAL_DEPTH]
    grid = np.stack([dense // _MAX_CELLS**2, dense // _MAX_CELLS % _MAX_CELLS, dense % _MAX_CELLS], axis=1)
    return ((grid - _MAX_CELLS // 2 + 0.5) * cell).astype(np.float32)

"""Splats on the device as planes of raw parameters, and the 3D smoothing filter on the host."""

from __future__ import annotations

import dataclasses

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.errors import UsageError
from splat_cli.gaussians.arrays import SplatArrays, squarable, zero_splats

MEANS, LOG_SCALES, QUATS = slice(0, 3), slice(3, 6), slice(6, 10)
OPACITIES, SH0, SHN = slice(10, 11), slice(11, 14), slice(14, None)
OPACITY = 10  # row of the opacities
CHUNK = 1 << 16  # splats copied between host and device at a time
MAX_SPLATS = {"cuda": 2**28, "cpu": 2**27}
"""Maximum by backend; more would overflow 32-bit indices of projected splats (on the CPU, of single floats)."""


def num_rows(sh_degree: int, num_features: int) -> int:
    """Number of scalars of a splat: 14, three channels of higher SH coefficients, and features."""
    return 14 + 3 * ((sh_degree + 1) ** 2 - 1) + num_features


def check_capacity(backend: Backend, capacity: int) -> None:
    """UsageError if kernels cannot index `capacity` splats."""
    if capacity > (most := MAX_SPLATS[backend.name]):
        raise UsageError(f"{capacity:,} splats are more than the {most:,} that kernels can index: use fewer splats")


class Splats:
    """Raw parameters as planes `params` float32 [rows, capacity]; the first `num` columns are splats.

    A row holds one scalar of all splats, so that neighbouring threads read neighbouring floats. Rows: 0-2 means, 3-5
    log_scales, 6-9 quats (wxyz), 10 logit_opacities, 11-13 sh0, 14 + 3 (k - 1) + c coefficient k, channel c of shN;
    then num_features inputs of a colour field.
    smooth_3d_sigmas: with --smooth-3d float32 [1, capacity], standard deviation of each splat's 3D smoothing filter in
    world units (`update_smooth_3d_sigmas`, render/project.py), else None.
    """

    def __init__(self, backend: Backend, params: DeviceArray, num: int, num_features: int = 0) -> None:
        self.backend = backend
        self.params = params
        self.num, self.num_features = num, num_features
        self.smooth_3d_sigmas: DeviceArray | None = None

    @classmethod
    def from_arrays(
        cls,
        backend: Backend,
        arrays: SplatArrays,
        capacity: int | None = None,
        sh_degree: int | None = None,
        num_features: int | None = None,
        rows_on_device: int | None = None,
    ) -> Splats:
        """Upload host arrays of N splats into planes of `capacity` columns (default N).

        sh_degree, num_features: layout of the planes, at least (and by default) as in the arrays; rows that the
        arrays lack are zero. rows_on_device: number of rows on the device, the others are in host memory; default all.
        """
        num = len(arrays)
        check_capacity(backend, max(capacity or num, num))
        num_features = arrays.num_features if num_features is None else num_features
        rows = num_rows(arrays.sh_degree if sh_degree is None else sh_degree, num_features)
        columns = max(capacity or num, num, 1)
        planes = backend.planes(rows, columns, rows if rows_on_device is None else rows_on_device)
        for first in range(0, num, CHUNK):
            row = 0
            for name, table in zip(arrays.arrays(), arrays.rows(), strict=True):
                if name == "features":
                    row = rows - num_features  # leaves zeros for coefficients that the arrays lack
                some = table[first : first + CHUNK]
                values = backend.upload(squarable(some) if name == "quats" else some)
                planes[row : row + values.shape[1], first : first + len(values)] = values.T
                row += values.shape[1]
        return cls(backend, planes, num, num_features)

    @property
    def capacity(self) -> int:
        """Number of splats that fit into the planes."""
        return int(self.params.shape[1])

    @property
    def sh_degree(self) -> int:
        """Degree of the spherical harmonics, 0 to 3."""
        return round(((self.params.shape[0] - self.num_features - 14) / 3 + 1) ** 0.5) - 1

    @property
    def first_feature(self) -> int:
        """Row of the first feature."""
        return len(self.params) - self.num_features

    def to_arrays(self) -> SplatArrays:
        """Download the splats, with the 3D smoothing filter, if any, applied."""
        arrays = zero_splats(self.num, self.sh_degree, self.num_features)
        rows = arrays.rows()
        for first in range(0, self.num, CHUNK):
            part, row = slice(first, min(first + CHUNK, self.num)), 0
            table = self.backend.download(self.params[:, part].T)
            for target in rows:
                target[part] = table[:, row : row + target.shape[1]]
                row += target.shape[1]
        if self.smooth_3d_sigmas is None:
            return arrays
        return smoothed_3d(arrays, self.backend.download(self.smooth_3d_sigmas)[0, : self.num])


_LARGEST = 80.0  # maximum logit: its exp does not overflow float32


def smoothed_3d(splats: SplatArrays, sigmas: np.ndarray) -> SplatArrays:
    """The splats convolved with isotropic Gaussians of standard deviations `sigmas` [N] in world units; 0: no change.

    Mip-Splatting (Yu et al. 2024, sec. 5.1, eq. 9): variances add, and opacity falls by the square root of the ratio of
    determinants. As in cuda_src/raster/projection.cuh.
    """
    wide = splats.log_scales.astype(np.float64)
    with np.errstate(over="ignore"):  # degenerate and non-finite splats do not change
        log_shares = -np.log1p(sigmas.astype(np.float64)[:, None] ** 2 * np.exp(-2 * wide))  # raw over new variance
        logits = np.clip(splats.logit_opacities.astype(np.float64), -_LARGEST, _LARGEST)
        log_fades = 0.5 * log_shares.sum(axis=1)
        logits = log_fades - np.log(np.exp(-logits) - np.expm1(log_fades))
    return dataclasses.replace(
        splats,
        log_scales=(wide - 0.5 * log_shares).astype(np.float32),
        logit_opacities=np.clip(logits, -_LARGEST, _LARGEST).astype(np.float32),
    )

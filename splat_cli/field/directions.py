"""Spherical harmonics encoding of directions: host side of cuda_src/field/sh_encode.cu."""

from __future__ import annotations

from splat_cli.device import Backend, DeviceArray, check_arrays
from splat_cli.device.launch import launch

MAX_DIRECTION_DEGREE = 4


def encode_directions(
    backend: Backend, directions: DeviceArray, num_rows: DeviceArray, degree: int, features: DeviceArray
) -> None:
    """Write degree^2 harmonics (degree 1 to 4) of unit vectors: planes [3, rows] -> planes [degree^2, rows]."""
    rows = _check("sh_encode", directions, degree, features)
    launch(backend, "field/sh_encode", "sh_encode", rows, directions, rows, num_rows, degree, features)


def backward_directions(
    backend: Backend,
    directions: DeviceArray,
    num_rows: DeviceArray,
    degree: int,
    d_features: DeviceArray,
    d_directions: DeviceArray,
) -> None:
    """Write gradients of the directions, planes [3, rows], with coordinates as independent variables."""
    rows = _check("sh_encode_backward", directions, degree, d_features)
    arrays = directions, rows, num_rows, degree, d_features, d_directions
    launch(backend, "field/sh_encode", "sh_encode_backward", rows, *arrays)


def _check(kernel: str, directions: DeviceArray, degree: int, features: DeviceArray) -> int:
    return check_arrays(
        kernel, directions=(directions, "float32", "3 R"), features=(features, "float32", f"{degree**2} R")
    )["R"]

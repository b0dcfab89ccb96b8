"""Real spherical harmonics of degree 0 to 3 as view-dependent colour.

Basis order and signs follow 3D Gaussian Splatting (Kerbl et al. 2023, section 4 and `utils/sh_utils.py` of its
code), which follow Sloan, "Efficient Spherical Harmonic Evaluation" (2013), appendix, with the Condon-Shortley phase.
"""

import numpy as np

Array = np.ndarray

C0 = 0.28209479177387814
C1 = 0.4886025119029199
C2 = (1.0925484305920792, 0.31539156525252005, 0.5462742152960396)
C3 = (0.5900435899266435, 2.890611442640554, 0.4570457994644658, 0.3731763325901154, 1.445305721320277)


def num_bases(degree: int) -> int:
    return (degree + 1) ** 2


def basis(directions: Array, degree: int) -> Array:
    """Values [N, (degree + 1)^2] of the basis polynomials at directions [N, 3]."""
    x, y, z = np.moveaxis(directions, -1, 0)
    xx, yy, zz = x * x, y * y, z * z
    values = [
        np.full_like(x, C0),
        -C1 * y,
        C1 * z,
        -C1 * x,
        C2[0] * x * y,
        -C2[0] * y * z,
        C2[1] * (2 * zz - xx - yy),
        -C2[0] * x * z,
        C2[2] * (xx - yy),
        -C3[0] * y * (3 * xx - yy),
        C3[1] * x * y * z,
        -C3[2] * y * (4 * zz - xx - yy),
        C3[3] * z * (2 * zz - 3 * xx - 3 * yy),
        -C3[2] * x * (4 * zz - xx - yy),
        C3[4] * z * (xx - yy),
        -C3[0] * x * (xx - 3 * yy),
    ]
    return np.stack(values[: num_bases(degree)], axis=-1)


def basis_gradient(directions: Array, degree: int) -> Array:
    """Derivatives [N, (degree + 1)^2, 3] of the same polynomials with respect to x, y and z, as free variables."""
    x, y, z = np.moveaxis(directions, -1, 0)
    xx, yy, zz = x * x, y * y, z * z
    o = np.zeros_like(x)
    rows = [
        (o, o, o),
        (o, o - C1, o),
        (o, o, o + C1),
        (o - C1, o, o),
        (C2[0] * y, C2[0] * x, o),
        (o, -C2[0] * z, -C2[0] * y),
        (-2 * C2[1] * x, -2 * C2[1] * y, 4 * C2[1] * z),
        (-C2[0] * z, o, -C2[0] * x),
        (2 * C2[2] * x, -2 * C2[2] * y, o),
        (-6 * C3[0] * x * y, -3 * C3[0] * (xx - yy), o),
        (C3[1] * y * z, C3[1] * x * z, C3[1] * x * y),
        (2 * C3[2] * x * y, -C3[2] * (4 * zz - xx - 3 * yy), -8 * C3[2] * y * z),
        (-6 * C3[3] * x * z, -6 * C3[3] * y * z, C3[3] * (6 * zz - 3 * xx - 3 * yy)),
        (-C3[2] * (4 * zz - 3 * xx - yy), 2 * C3[2] * x * y, -8 * C3[2] * x * z),
        (2 * C3[4] * x * z, -2 * C3[4] * y * z, C3[4] * (xx - yy)),
        (-3 * C3[0] * (xx - yy), 6 * C3[0] * x * y, o),
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows[: num_bases(degree)]], axis=-2)


def forward(directions: Array, coefficients: Array) -> Array:
    """Sums [N, 3] of basis times coefficients [N, K, 3], without the offset of 0.5."""
    degree = round(np.sqrt(coefficients.shape[1])) - 1
    return np.einsum("nk,nkc->nc", basis(directions, degree), coefficients)


def backward(directions: Array, coefficients: Array, d_values: Array) -> tuple[Array, Array]:
    """Gradients of the coefficients [N, K, 3] and of the directions [N, 3], from d_values [N, 3]."""
    degree = round(np.sqrt(coefficients.shape[1])) - 1
    d_coefficients = np.einsum("nk,nc->nkc", basis(directions, degree), d_values)
    d_directions = np.einsum("nkd,nkc,nc->nd", basis_gradient(directions, degree), coefficients, d_values)
    return d_coefficients, d_directions

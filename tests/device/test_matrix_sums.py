"""Sums of blend_backward as matrix products: the values in each lane. Tensor cores are emulated."""

import numpy as np

from splat_cli.device import Backend


def test_sums_of_a_warp(small_kernels: Backend) -> None:
    rng = np.random.default_rng(0)
    d_image, g = rng.normal(size=(3, 64)).astype(np.float32), rng.normal(size=(8, 64)).astype(np.float32)
    weights, means = rng.uniform(size=(8, 64)).astype(np.float32), rng.normal(0, 6, (8, 2)).astype(np.float32)
    sums = small_kernels.upload(np.zeros((8, 9), np.float32))
    inputs = [small_kernels.upload(array) for array in (d_image, g, weights, means)]
    small_kernels.kernel("matrix_sums", "matrix_sums")((1,), (32,), *inputs, sums)

    lane, pixel = np.divmod(np.arange(64), 2)
    position = np.stack([lane % 8, lane // 8 + 4 * pixel], axis=1) - 3.5
    dx, dy = np.moveaxis(position - means[:, None].astype(np.float64), -1, 0)  # [8, 64]
    far_x, far_y = np.moveaxis(np.abs(position) + np.abs(means[:, None]), -1, 0)  # factors of the terms that are summed
    moments = (g * _factors(dx, dy)).sum(axis=-1).T
    colors = weights.astype(np.float64) @ d_image.T
    # The factors of a term are truncated to 11 significant bits (error 2^-10) or rounded (2^-11).
    found = small_kernels.download(sums)
    assert (np.abs(found[:, :6] - moments) < 2**-10 * (np.abs(g) * _factors(far_x, far_y)).sum(axis=-1).T).all()
    assert (np.abs(found[:, 6:] - colors) < 1.5 * 2**-10 * weights @ np.abs(d_image.T)).all()


def _factors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y])

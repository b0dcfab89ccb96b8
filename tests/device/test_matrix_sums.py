"""The sums of blend_backward as products of matrices: which lane holds what, with an imitation of the tensor cores."""

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
    factors = np.stack([np.ones_like(dx), dx, dy, dx * dx, dx * dy, dy * dy])
    moments, bounds = (g * factors).sum(axis=-1).T, np.abs(g * factors).sum(axis=-1).T
    colors = weights.astype(np.float64) @ d_image.T
    found = small_kernels.download(sums)
    assert (np.abs(found[:, :6] - moments) < 1e-4 * (1 + bounds)).all()
    np.testing.assert_allclose(found[:, 6:], colors, atol=1e-4)

"""Decimation: half as many splats look alike from far away."""

import dataclasses

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays, rotations
from splat_cli.gaussians.editing.decimate import extents, halved
from splat_cli.gaussians.splats import Splats
from tests.gaussians.some_splats import some_splats
from tests.views import render_view, ring_of_views


def covariance(splats, index):
    scaled = rotations(np, splats.quats[index][:, None].astype(np.float64))[0] * np.exp(splats.log_scales[index])
    return scaled @ scaled.T


def pair(opacity=0.5, scale=0.1, distance=0.4):
    splats = some_splats(2, degree=1)
    splats.means[:] = [[0, 0, 0], [distance, 0, 0]]
    splats.log_scales[:] = np.log(scale)
    splats.logit_opacities[:] = np.log(opacity / (1 - opacity))
    return splats


def test_moments_of_two_equal_splats():
    splats = pair()
    one = halved(splats)
    np.testing.assert_allclose(one.means, [[0.2, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(covariance(one, 0), np.diag([0.01 + 0.04, 0.01, 0.01]), atol=1e-6)
    np.testing.assert_allclose(one.sh0[0], splats.sh0.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(one.shN[0], splats.shN.mean(axis=0), rtol=1e-5, atol=1e-7)
    area, new_area = 0.1**2, 0.1 * np.sqrt(0.05)
    np.testing.assert_allclose(1 / (1 + np.exp(-one.logit_opacities[0])), 2 * 0.5 * area / new_area, rtol=1e-5)


def test_equal_splats_in_one_place_become_one():
    one = halved(pair(distance=0, opacity=0.3))
    np.testing.assert_allclose(covariance(one, 0), 0.01 * np.eye(3), atol=1e-6)
    np.testing.assert_allclose(1 / (1 + np.exp(-one.logit_opacities[0])), 0.6, rtol=1e-5)


def test_larger_and_more_opaque_splats_weigh_more():
    splats = pair()
    splats.log_scales[1] += np.log(10)
    assert halved(splats).means[0, 0] > 0.39
    splats.logit_opacities[1] = -20
    assert halved(splats).means[0, 0] < 0.01


def test_numbers():
    assert [len(halved(some_splats(count))) for count in (0, 1, 2, 7, 10)] == [0, 1, 1, 4, 5]
    odd = some_splats(1)
    assert halved(odd).means.tobytes() == odd.means.tobytes()
    assert halved(dataclasses.replace(some_splats(4), antialiased=True)).antialiased


def test_it_looks_alike_from_afar(backend):
    splats = some_splats(4000, degree=0, spread=0.5, log_scales=(-4, 0.2), logit_opacities=(1, 0.5), color=0.3)
    splats.means /= np.linalg.norm(splats.means, axis=1, keepdims=True)
    splats.sh0[:, 0] += 2 * splats.means[:, 0]
    view = ring_of_views(1, width=24, height=18, radius=4)[0].resized(24, 18)

    def picture(shown: SplatArrays):
        return render_view(backend, Splats.from_arrays(backend, shown), view, (0.5, 0.5, 0.5), antialias=True)

    whole, half, other = picture(splats), picture(halved(splats)), picture(splats.select(np.arange(0, 4000, 2)))
    assert np.abs(half - whole).mean() < 0.5 * np.abs(other - whole).mean()


def test_extents_hold_three_deviations():
    splats = pair(scale=0.1, distance=1.0)
    low, high = extents(splats, 3)
    np.testing.assert_allclose((low, high), [[-0.3, -0.3, -0.3], [1.3, 0.3, 0.3]], atol=1e-6)

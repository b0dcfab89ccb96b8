"""Antialiasing baked into splats, for viewers without antialiasing."""

import dataclasses

import numpy as np
import pytest

from splat_cli.gaussians.splats import Splats, smoothed_3d
from splat_cli.render import bake_antialiasing as module
from splat_cli.render.bake_antialiasing import bake_antialiasing, without_antialiasing
from splat_cli.render.project import Projection
from splat_cli.render.view import ViewRenderer
from tests.gaussians.some_splats import some_splats
from tests.reference import inputs as reference
from tests.reference.project import Options, forward
from tests.views import ring_of_views


def _tiny_splats(num=300):
    """Splats smaller than a pixel in the ring's views, so that the compensation matters."""
    return some_splats(num, degree=0, spread=0.5, log_scales=(-4.5, 0.5), logit_opacities=(1, 1))


def _pictures(backend, splats, views, antialias):
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, antialias)
    return np.stack([renderer.render(index) for index in range(len(views))])


def test_baked_splats_look_as_trained(backend):
    views, splats = ring_of_views(6), _tiny_splats()
    baked = bake_antialiasing(backend, splats, views)
    trained = _pictures(backend, splats, views, True)
    raw_error = np.abs(_pictures(backend, splats, views, False) - trained).mean()
    baked_error = np.abs(_pictures(backend, baked, views, False) - trained).mean()
    assert baked_error < 0.2 * raw_error
    assert not baked.antialiased


@pytest.mark.parametrize("size", [-2.5, -4.5])
def test_total_coverage_over_all_views_is_kept(backend, size):
    views, splats = ring_of_views(5), _tiny_splats()
    splats.means *= np.float32(0.2)  # in every view
    splats.log_scales = np.clip(splats.log_scales, -5, -4) + np.float32(size + 4.5)
    splats.logit_opacities = np.clip(splats.logit_opacities, 0, 2)
    baked = bake_antialiasing(backend, splats, views)
    expected = _covered(splats, views, antialias=True)
    np.testing.assert_allclose(_covered(baked, views, antialias=False), expected, rtol=1e-3)


@pytest.mark.filterwarnings("error")
def test_flat_and_far_splats_stay_finite(backend):
    """The variance of the flat axis is 0 in float32; the square of the distance is infinite."""
    splats = _tiny_splats(20)
    splats.log_scales[:, 0] = -60
    splats.means[10:] *= np.float32(1e25)
    baked = bake_antialiasing(backend, splats, ring_of_views(3))
    np.testing.assert_array_equal(baked.log_scales[:, 0], -60)
    assert all(np.isfinite(array).all() for array in baked.arrays().values())


def _covered(splats, views, antialias):
    """Opacity times area (px^2) of each splat, summed over the views."""
    scene = reference.Splats(**{name: array.astype(np.float64) for name, array in splats.arrays().items()})
    seen = [forward(scene, _camera(view), Options(antialias)) for view in views]
    assert all(one.visible.all() for one in seen)
    return sum(one.opacities / np.sqrt(one.conics[:, 0] * one.conics[:, 2] - one.conics[:, 1] ** 2) for one in seen)


def _camera(view):
    return reference.Camera(
        **{name: getattr(view, name) for name in ("w2c", "fx", "fy", "cx", "cy", "width", "height")}
    )


def test_large_splats_shrink_by_a_tenth_of_a_pixel_and_tiny_ones_hardly(backend):
    """A splat at a distance of 3 from all views: the variance of a pixel is (3 / f)^2."""
    splats, pixel = _tiny_splats(3), 9 / (35 * 36)
    splats.means[:] = 0
    splats.log_scales[:] = np.log(pixel * np.array([[4.0], [0.1], [0.001]])) / 2  # variances of 4, 0.1 and 0.001 px^2
    baked = bake_antialiasing(backend, splats, ring_of_views(4))
    np.testing.assert_allclose(np.exp(2 * baked.log_scales[:, 0]) / pixel, [3.9, 0.01, 0.001], rtol=1e-3)


def test_3d_filter_is_baked_too(backend):
    splats, views = _tiny_splats(40), ring_of_views(4)
    sigmas = np.full((1, 40), 0.02, np.float32)
    filtered = Splats.from_arrays(backend, splats)
    filtered.smooth_3d_sigmas = backend.upload(sigmas)
    expected = without_antialiasing(Splats.from_arrays(backend, smoothed_3d(splats, sigmas[0])), views).to_arrays()
    for name, array in without_antialiasing(filtered, views).to_arrays().arrays().items():
        np.testing.assert_allclose(array, expected.arrays()[name], rtol=1e-3, atol=1e-3)


def test_unseen_splats_do_not_change(backend):
    splats = _tiny_splats(20)
    splats = dataclasses.replace(splats, means=splats.means + np.float32([0, 1000, 0]))
    for name, array in bake_antialiasing(backend, splats, ring_of_views(4)).arrays().items():
        np.testing.assert_array_equal(array, splats.arrays()[name])


def test_splats_too_faint_to_be_seen_antialiased(backend, monkeypatch):
    """These splats are visible without antialiasing. Values that the antialiased pass leaves unwritten are not read."""
    splats, views = _tiny_splats(60), ring_of_views(4)
    splats.log_scales[:] = -6  # far smaller than a pixel
    splats.logit_opacities[:30] = -4
    expected = bake_antialiasing(backend, splats, views)
    monkeypatch.setattr(module, "Projection", _UnwrittenProjection)
    baked = bake_antialiasing(backend, splats, views)
    for name, array in baked.arrays().items():
        np.testing.assert_array_equal(array, expected.arrays()[name])
    np.testing.assert_allclose(baked.logit_opacities[:30], np.log(module.OPACITIES[0]), atol=1e-3)


class _UnwrittenProjection(Projection):
    """Fills uninitialised memory with NaN."""

    @classmethod
    def allocate(cls, *args, **options):
        out = Projection.allocate(*args, **options)
        out.conic_opacity[...] = np.nan
        return out

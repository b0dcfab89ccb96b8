"""Antialiased splats, baked for viewers that know nothing of antialiasing."""

import dataclasses

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.bake import bake_antialiasing
from splat_cli.render.view import ViewRenderer
from tests.views import ring_of_views


def _tiny_splats(num=300):
    """Smaller than a pixel from the ring's distance, so that the compensation matters."""
    rng = np.random.default_rng(0)
    return SplatArrays(
        means=rng.normal(0, 0.5, (num, 3)).astype(np.float32),
        log_scales=rng.normal(-4.5, 0.5, (num, 3)).astype(np.float32),
        quats=rng.normal(size=(num, 4)).astype(np.float32),
        logit_opacities=rng.normal(1, 1, num).astype(np.float32),
        sh0=rng.normal(size=(num, 3)).astype(np.float32),
        shN=np.zeros((num, 0, 3), np.float32),
    )


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


def test_splats_that_no_view_sees_stay_as_they_are(backend):
    splats = _tiny_splats(20)
    splats = dataclasses.replace(splats, means=splats.means + np.float32([0, 1000, 0]))
    np.testing.assert_array_equal(
        bake_antialiasing(backend, splats, ring_of_views(4)).logit_opacities, splats.logit_opacities
    )

"""Several samples per pixel: their mean, and when they are used."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from splat_cli.gaussians.splats import Splats
from splat_cli.render.output.render_sequence import coarser, finer, samples_as_fine
from splat_cli.render.rendered_maps import RenderedMaps, render_maps
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.trajectories.camera_path import with_size
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views


def test_colors_are_shrunk_like_photographs():
    photograph = np.random.default_rng(0).integers(0, 256, (24, 36, 3), np.uint8)
    frame = RenderedMaps((photograph / 255).astype(np.float32), alpha=np.ones((24, 36), np.float32))
    shrunk = coarser(frame, 3)
    expected = np.asarray(Image.fromarray(photograph).resize((12, 8), Image.Resampling.LANCZOS))
    assert np.abs(255 * np.clip(shrunk.color, 0, 1) - expected).max() < 2
    np.testing.assert_allclose(shrunk.alpha, 1, atol=1e-6)


def test_maps_are_means_over_the_samples_that_have_them():
    depth, normal = np.zeros((2, 4), np.float32), np.zeros((2, 4, 3), np.float32)
    depth[:, 0] = 2, 4
    normal[:, 0] = (0, 0, -1), (0, -1, 0)
    shrunk = coarser(RenderedMaps(np.zeros((2, 4, 3), np.float32), depth=depth, normal=normal), 2)
    np.testing.assert_allclose(shrunk.depth, [[3, 0]])
    np.testing.assert_allclose(shrunk.normal, [[[0, -(0.5**0.5), -(0.5**0.5)], [0, 0, 0]]], rtol=1e-6)


@pytest.mark.parametrize("samples", [1, 3])
def test_a_finer_view_shows_the_same_place(backend, samples):
    """Splats larger than a pixel look the same with any number of samples."""
    arrays = some_splats(100)
    arrays.log_scales = np.clip(arrays.log_scales, -1.5, -0.5)
    splats, view = Splats.from_arrays(backend, arrays), ring_of_views(1)[0]
    one, several = (
        coarser(render_maps(ViewRenderer(backend, splats, [finer(view, n)], antialias=True), 0), n).color
        for n in (1, samples)
    )
    assert one.shape == several.shape
    assert np.abs(one - several).mean() < 0.01 * np.abs(one).mean() + 0.002


def test_samples_are_as_fine_as_the_photographs():
    views = ring_of_views(3, width=40, height=30)
    for size, expected in (((40, 30), 1), ((80, 60), 1), ((20, 15), 2), ((16, 12), 2), ((4, 3), 4)):
        assert samples_as_fine([with_size(view, *size) for view in views], views) == expected
    assert samples_as_fine(views, []) == 1
    assert samples_as_fine([dataclasses.replace(views[0], fy=12.0)], views) == 3

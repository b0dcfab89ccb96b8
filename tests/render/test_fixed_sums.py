"""Sums in fixed point have the same bits with any number of threads and are as accurate as sums of floats."""

import dataclasses

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.render.blend import blend_scores
from tests.noise_trainer import launch_anew, noise_trainer

SETTINGS = {"steps": 40, "densify_start": 5, "densify_interval": 10, "noise_scale": 1000.0, "absgrad": True}


def _trainer(threads, deterministic=True, **changes):
    trainer = noise_trainer(open_backend("cpu", threads=threads), 3000, **{**SETTINGS, **changes})
    rasterizer = trainer.rasterizer
    rasterizer.settings = dataclasses.replace(rasterizer.settings, deterministic=deterministic)
    rasterizer.resize_splats(trainer.splats.capacity)
    return trainer


@pytest.mark.parametrize("strategy", ["default", "adc"])
def test_threads_do_not_change_the_bits(strategy):
    one, several = _trainer(1, strategy=strategy), _trainer(4, strategy=strategy)
    one.run_until(40)
    several.run_until(40)
    assert one.model.num == several.model.num
    np.testing.assert_array_equal(one.splats.params, several.splats.params)


def test_fixed_sums_equal_float_sums():
    fixed, floats = _trainer(1), _trainer(1, deterministic=False)
    for trainer in (fixed, floats):
        trainer.run_until(1)
    seen = floats.rasterizer.projection.depths[:3000] > 0
    expected = floats.rasterizer.projection.d_splats[:3000][seen][:, :9]
    found = fixed.rasterizer.projection.d_splats[:3000][seen][:, :9]
    largest = np.abs(expected).max(axis=0)
    assert (np.abs(found - expected) <= 1e-5 * np.abs(expected) + 1e-7 * largest).mean() > 0.999
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6 * largest.max())
    np.testing.assert_array_equal(fixed.rasterizer.projection.fixed_sums, 0)
    for one, other in zip(fixed.scratch.scorer.scores(4), floats.scratch.scorer.scores(4), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)


def test_fixed_scores_equal_float_scores():
    trainer = _trainer(2)
    raster, state = trainer.rasterizer, trainer.state
    state.write(view=1)
    raster.forward(trainer.splats, state)
    errors = np.random.default_rng(0).random(raster.rendered.image.shape, np.float32)
    floats, fixed = (np.zeros((trainer.splats.capacity, columns), np.float32) for columns in (2, 4))
    for scores in (floats, fixed):
        arrays = raster.cameras, state, raster.projection, raster.tiles, raster.rendered, errors, scores
        blend_scores(*arrays, fixed_sums=scores is fixed)
    assert (floats > 0.01).sum() > 1000
    np.testing.assert_allclose(fixed.view(np.int64) / 2.0**24, floats, rtol=1e-4, atol=1e-4)


def test_sum_that_does_not_fit_skips_the_splat():
    trainer = _trainer(2)
    trainer.run_until(2)
    backward = trainer.loss.backward
    before = trainer.splats.params.copy()

    def poisoned(state, image, d_image):
        backward(state, image, d_image)
        d_image[:100] = np.nan

    trainer.loss.backward = poisoned
    launch_anew(trainer)
    trainer.run_until(3)
    assert trainer.nonfinite_counts["skipped_updates"] > 0
    assert np.isfinite(trainer.splats.params).all()
    assert (trainer.splats.params != before).any()

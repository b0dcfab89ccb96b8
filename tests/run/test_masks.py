"""Masked pixels do not change training or metrics."""

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.device import open_backend
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.trainer import TrainingInputs
from tests.reference.metrics import score
from tests.views import ring_of_views


def photographs(junk):
    """Grey images with `junk` in their left halves, and masks that keep the right halves."""
    images = [np.full((30, 40, 3), 90, np.uint8) for _ in range(4)]
    masks = [np.full((30, 40), 255, np.uint8) for _ in images]
    for image, mask in zip(images, masks, strict=True):
        image[:, :20], mask[:, :20] = junk, 0
    return images, masks


def trained_on(junk, with_masks=True):
    rng = np.random.default_rng(0)
    points, colors = rng.uniform(-1, 1, (60, 3)).astype(np.float32), rng.integers(0, 256, (60, 3), dtype=np.uint8)
    images, masks = photographs(junk)
    config = TrainConfig(steps=30, densify_start=1000)
    backend = open_backend("cpu", threads=1)  # sums in one order
    taken = ImageSet(ring_of_views(4), images, masks if with_masks else [None] * 4, [])
    trainer = build_trainer(backend, config, TrainingInputs(taken), (points, colors))
    trainer.run_until(30)
    return trainer.splats.to_arrays()


def test_masked_pixels_do_not_pull_colours():
    dark, bright = trained_on((0, 0, 0)), trained_on((255, 0, 255))
    for one, other in zip(dark.arrays().values(), bright.arrays().values(), strict=True):
        np.testing.assert_array_equal(one, other)
    unmasked = trained_on((255, 0, 255), with_masks=False)
    assert np.abs(unmasked.sh0 - bright.sh0).max() > 0.01


def test_masked_pixels_do_not_count_in_metrics():
    rng = np.random.default_rng(0)
    render, photograph = rng.integers(0, 256, (2, 30, 40, 3), dtype=np.uint8)
    mask = np.where(rng.random((30, 40)) < 0.5, 255, 0).astype(np.uint8)
    changed = np.where(mask[..., None] > 0, photograph, 255 - photograph)
    assert score(render, photograph, mask) == score(render, changed, mask)
    assert score(render, photograph, np.full_like(mask, 255)) == score(render, photograph)
    perfect = score(changed, photograph, mask)
    assert perfect.psnr == 100
    assert perfect.ssim == pytest.approx(1)

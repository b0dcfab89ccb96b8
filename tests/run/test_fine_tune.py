"""Fine-tuning of existing splats."""

import numpy as np

from splat_cli.config.presets import load_config
from splat_cli.run.export_splats import fine_tune
from splat_cli.scene.images.image_set import ImageSet
from tests.noise_trainer import noise_trainer
from tests.views import ring_of_views

FAR = 100.0  # positions of the ring's photographs are a few units from the origin


def test_splats_outside_all_photographs_are_unchanged(backend):
    """12 steps show each of 4 photographs 3 times."""
    splats = noise_trainer(backend, 30).splats.to_arrays()
    splats.means[:5] += FAR
    before, views = splats.means.copy(), ring_of_views(4)
    images = ImageSet(views, [np.zeros((view.height, view.width, 3), np.uint8) for view in views], [None] * 4, [])
    tuned = fine_tune(backend, splats, images, load_config(None, {}), 12)
    assert len(tuned) == 30
    np.testing.assert_array_equal(tuned.means[:5], before[:5])
    assert (tuned.means[5:] != before[5:]).any()

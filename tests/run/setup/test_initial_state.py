"""Placeholder splats, which a checkpoint replaces."""

import numpy as np

from splat_cli.run.setup.initial_state import placeholder_state
from splat_cli.scene.images.image_set import ImageSet
from tests.views import ring_of_views


def test_placeholders_are_as_many_as_the_checkpoint_has_splats():
    views = ring_of_views(4)
    state = placeholder_state(ImageSet(views, [], [], []), 10, num_frozen=4, sh_degree=2)
    assert (state.num_points, state.num_frozen) == (6, 4)
    assert np.ptp(state.points.means, axis=0).min() > 0

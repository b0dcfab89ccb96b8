"""Held-out views and the size of a scene."""

import numpy as np
import pytest

from splat_cli.scene import scene_extent, split
from tests.views import ring_of_views


def test_every_eighth_view_by_name_is_held_out():
    views = ring_of_views(17)
    train, test = split(views[::-1], 8)
    assert [view.name for view in test] == ["a_00.jpg", "a_08.jpg", "a_16.jpg"]
    assert [view.name for view in train] == [view.name for i, view in enumerate(views) if i % 8]


@pytest.mark.parametrize("test_every", [0, -1])
def test_nothing_is_held_out(test_every):
    train, test = split(ring_of_views(5), test_every)
    assert len(train) == 5
    assert test == []


def test_extent_of_a_ring():
    assert scene_extent(ring_of_views(12, radius=3.0)) == pytest.approx(3.3)


def test_extent_of_one_place():
    view = ring_of_views(1)[0]
    assert scene_extent([view]) == scene_extent([view, view]) == 1.0
    assert np.isfinite(scene_extent([]))

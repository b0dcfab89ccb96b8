"""Edits of an export: the splats that it keeps, their order, and merging of several inputs."""

import numpy as np
import pytest

from splat_cli.gaussians.editing.edits import Edits, SplatStats, in_morton_order, merged
from splat_cli.scene.crop import parse_crop
from tests.gaussians.some_splats import some_splats


def test_empty_edits_change_nothing():
    splats = some_splats(20)
    assert Edits().apply(splats) is splats


@pytest.mark.parametrize("crop", ["0,0,0,1", "-1,-1,0,1,1,2"])
def test_crop_is_in_the_coordinates_of_the_file(crop):
    splats = some_splats(200)
    kept = Edits(crop=parse_crop(crop), translate=(10, 0, 0)).apply(splats)
    inside = parse_crop(crop).contains(splats.means)
    assert 0 < inside.sum() < 200
    np.testing.assert_allclose(kept.means, splats.means[inside] + [10, 0, 0], atol=1e-5)


def test_transparent_splats_are_left_out():
    splats = some_splats(100)
    kept = Edits(min_opacity=0.5).apply(splats)
    np.testing.assert_array_equal(kept.means, splats.means[splats.logit_opacities >= 0])


def test_sizes_are_longest_axes():
    splats = some_splats(4)
    splats.log_scales[:] = np.log([[1, 2, 3], [0.5, 0.5, 0.5], [4, 0.1, 0.1], [0.1, 5, 0.1]])
    kept = Edits(min_size=0.6, max_size=4.5).apply(splats)
    np.testing.assert_array_equal(kept.means, splats.means[[0, 2]])


def test_splats_found_by_cleaning_are_removed():
    splats = some_splats(3)
    kept = Edits(clean=1).apply(splats, SplatStats(goes=np.array([False, True, False])))
    np.testing.assert_array_equal(kept.means, splats.means[[0, 2]])


def test_contributions_go_with_what_is_left():
    """The most transparent contributes most, but is left out before the limit."""
    splats = some_splats(5)
    splats.logit_opacities[:] = [-9, 2, 2, 2, 2]
    found = SplatStats(contributions=np.array([9.0, 1, 4, 0.1, 3]))
    kept = Edits(min_opacity=0.5, max_splats=2).apply(splats, found)
    np.testing.assert_array_equal(kept.means, splats.means[[2, 4]])
    kept = Edits(min_contribution=1).apply(splats, found)
    np.testing.assert_array_equal(kept.means, splats.means[[0, 1, 2, 4]])


def test_without_contributions_the_opaque_and_broad_are_kept():
    splats = some_splats(4)
    splats.logit_opacities[:] = [3, 3, -3, -np.float32(1e30)]
    splats.log_scales[:] = [[0, 0, -9], [9, -9, -9], [0, 0, 0], [30, 30, 30]]
    np.testing.assert_array_equal(Edits(max_splats=1).apply(splats).means, splats.means[:1])
    np.testing.assert_array_equal(Edits(max_splats=3).apply(splats).means, splats.means[:3])
    assert Edits(max_splats=4).apply(splats) is splats


def test_morton_order_brings_neighbours_together():
    splats = some_splats(2000)
    ordered = in_morton_order(splats)
    assert sorted(ordered.means.tolist()) == sorted(splats.means.tolist())
    assert _steps(ordered) < 0.3 * _steps(splats)
    assert len(in_morton_order(some_splats(0))) == 0


def _steps(splats):
    return np.linalg.norm(np.diff(splats.means, axis=0), axis=1).mean()


def test_merged_sets_have_the_highest_degree():
    parts = [some_splats(3, 1, seed=1), some_splats(2, 3, seed=2), some_splats(0, 0)]
    both = merged(parts)
    assert (len(both), both.sh_degree) == (5, 3)
    np.testing.assert_array_equal(both.shN[:3, :3], parts[0].shN)
    assert not both.shN[:3, 3:].any()
    np.testing.assert_array_equal(both.quats[3:], parts[1].quats)

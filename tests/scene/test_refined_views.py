"""Held-out views follow the refinement of training views: intrinsics of a camera, common drift."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.scene.poses import common_offset, moved_views, views_following
from tests.views import ring_of_views


def test_views_follow_the_intrinsics_of_their_camera() -> None:
    """Held-out views get the changes of a training view of the same camera, at their own size."""
    views = [replace(view, camera_id=number % 2) for number, view in enumerate(ring_of_views(6))]
    given = views[:4]
    refined = [
        replace(v, fx=1.02 * v.fx, fy=1.02 * v.fy, cx=v.cx + 2, radial=(0.1, 0.02)) if v.camera_id else v for v in given
    ]
    refined = moved_views(refined, np.zeros((4, 6)))
    small = replace(views[5].resized(20, 15), name="small")
    unknown = replace(views[5], name="unknown", camera_id=9)
    followed = views_following([*views, small, unknown], given, refined)
    assert [view.fx for view in followed[:6]] == pytest.approx([35, 35.7] * 3)
    assert (followed[6].fx, followed[6].cx) == (pytest.approx(17.85), pytest.approx(small.cx + 1))
    assert [view.radial for view in followed[5:7]] == [(0.1, 0.02)] * 2
    assert followed[7].fx == 35


def test_views_follow_the_drift_that_all_cameras_have_in_common() -> None:
    """A ring with one camera per photograph, pitched by 3 mrad and with longer focal lengths. Held-out views follow."""
    rng = np.random.default_rng(0)
    views = [replace(view, camera_id=number) for number, view in enumerate(ring_of_views(24))]
    drift = np.array([3e-3, 0, 0, 0, 0, 0, 0.01, 0, 4e-3, 0.02, 0])
    given, moved = views[::2], moved_views(views, np.tile(drift, (24, 1)))
    refined = moved_views(given, drift + rng.normal(0, 5e-4, (12, 11)))
    followed = views_following(views[1::2], given, refined)
    for view, expected, before in zip(followed, moved[1::2], views[1::2], strict=True):
        off, was = (np.abs(each.w2c - expected.w2c).max() for each in (view, before))
        assert off < 0.3 * was
        assert view.fx == pytest.approx(expected.fx, rel=1e-3)
        assert view.cy == pytest.approx(expected.cy, abs=0.03)
        assert view.radial[0] == pytest.approx(0.02, abs=2e-3)


def test_views_do_not_follow_corrections_of_single_cameras() -> None:
    offsets = np.random.default_rng(1).normal(0, 0.02, (400, 24, 3))
    common = np.array([common_offset(list(rows)) for rows in offsets])
    assert np.sqrt(np.mean(common**2)) < 0.7 * 0.02 / np.sqrt(24)
    assert not common_offset([np.ones(3)] * 3).any()

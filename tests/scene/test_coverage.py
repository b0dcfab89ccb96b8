"""Gaps around a scene, shared points, and places for more photographs."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from splat_cli.scene import coverage
from splat_cli.scene.coverage import gaps, helpful_places, largest_chain, shared_points
from splat_cli.scene.view import Scene
from tests.views import ring_of_views


def scene_of(views, num_points=200):
    points = 0.4 * np.random.default_rng(0).normal(size=(num_points, 3)).astype(np.float32)
    return Scene(Path("missing"), views, points, np.zeros((num_points, 3), np.uint8))


def outward(views):
    """The cameras turned around, so that they look away from the middle."""
    turned = []
    for view in views:
        w2c = np.diag([-1.0, 1.0, -1.0, 1.0]) @ view.w2c
        turned.append(dataclasses.replace(view, w2c=w2c))
    return turned


def test_gap_in_a_ring():
    views = ring_of_views(36)
    assert gaps(views)[0].degrees == pytest.approx(10)
    hole = gaps(views[:10] + views[22:])[0]
    assert hole.is_ring
    assert hole.degrees == pytest.approx(130, abs=8)  # the middle moves towards the cameras
    assert {hole.first, hole.second} == {"a_09.jpg", "a_22.jpg"}


def test_gap_of_cameras_that_look_outward():
    hole = gaps(outward(ring_of_views(36))[:24])[0]
    assert not hole.is_ring
    assert hole.degrees == pytest.approx(130)


def test_places_are_in_the_gap_and_look_at_the_middle():
    views = ring_of_views(36)
    left = views[:10] + views[22:]
    places = helpful_places(scene_of(left), 3)
    missing = np.mean([view.center for view in views[10:22]], axis=0)
    missing /= np.linalg.norm(missing)
    best = places[0]
    assert best.center @ missing / np.linalg.norm(best.center) > 0.94
    assert np.linalg.norm(best.center) == pytest.approx(3, rel=0.25)
    assert best.direction @ -best.center / np.linalg.norm(best.center) > 0.9
    gains = [place.gain for place in places]
    assert gains[0] == 1
    assert gains == sorted(gains, reverse=True)
    assert gains[1] < 0.9, "a second photograph from the same place adds little"


def test_no_places_without_points_or_gaps():
    assert helpful_places(scene_of(ring_of_views(12), 0), 5) == []
    assert helpful_places(scene_of(ring_of_views(1)), 5) == []


def test_shared_points_need_tracks():
    assert shared_points(scene_of(ring_of_views(5))) is None


def matches_of(tracks):
    """Matches between neighbours of each track, a list of photographs; each has its own features."""
    matches = {}
    for number, track in enumerate(tracks):
        for pair in itertools.pairwise(track):
            matches.setdefault(pair, []).append((number, number))
    return {pair: np.array(rows, np.uint32) for pair, rows in matches.items()}


@pytest.mark.parametrize(
    ("tracks", "num"),
    [
        ([], 0),
        (9 * [(1, 2)], 0),
        (10 * [(1, 2)] + 20 * [(2, 3)], 2),  # no point in three photographs
        (10 * [(1, 2, 3)] + 9 * [(2, 3, 4)], 3),
        (10 * [(1, 2, 3)] + 5 * [(2, 3, 4)] + 5 * [(1, 3, 4)], 4),  # of any two
        (10 * [(1, 2, 3)] + 10 * [(3, 1, 4)], 4),  # 4 matches 1, and 3 by way of it
        (30 * [(7, 8)] + 10 * [(1, 2, 3)] + 10 * [(2, 3, 4)] + 10 * [(3, 4, 5)], 5),
    ],
)
def test_largest_chain_of_photographs_with_ten_points_in_two_others(tracks, num):
    assert largest_chain(matches_of(tracks), 10) == num
    assert largest_chain(matches_of([[9 - one for one in track] for track in tracks]), 10) == num


def test_points_in_many_photographs_take_few_rounds(monkeypatch):
    rounds, equal = [], np.array_equal
    monkeypatch.setattr(coverage.np, "array_equal", lambda *arrays: rounds.append(1) or equal(*arrays))
    assert largest_chain(matches_of(10 * [range(500)]), 10) == 500
    assert len(rounds) < 20


def test_two_chains_share_photographs_that_join_either():
    """The chain that begins with the best pair stops at 3; another, through 3, is longer."""
    first, second = 20 * [(1, 2)] + 10 * [(1, 2, 3)], 12 * [(4, 5)] + 10 * [(4, 5, 6), (5, 6, 7), (3, 6, 7)]
    assert largest_chain(matches_of(first + second), 10) == 5

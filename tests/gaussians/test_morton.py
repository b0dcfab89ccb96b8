"""The Morton curve: host and device agree to the bit, and neighbours along it are near."""

import numpy as np
import pytest

from splat_cli.gaussians.morton import curve_bounds, curve_positions, device_curve_positions

POINTS = {
    "ball": np.random.default_rng(0).normal(size=(1500, 3)),
    "outliers": np.r_[np.random.default_rng(1).normal(size=(1000, 3)), [[1e9, -1e9, 0]]],
    "one place": np.ones((50, 3)),
}


@pytest.mark.parametrize("name", POINTS)
def test_host_and_device_agree(backend, name):
    points = POINTS[name].astype(np.float32)
    planes = np.full((3, len(points) + 7), np.nan, np.float32)
    planes[:, : len(points)] = points.T
    codes = device_curve_positions(backend, backend.upload(planes), len(points), curve_bounds(points))
    np.testing.assert_array_equal(backend.download(codes), curve_positions(points))


def test_bits_of_the_axes_are_interleaved():
    corners = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1)], np.float32)
    points = np.repeat(corners, 20, axis=0)
    assert (np.diff(curve_positions(points).astype(np.int64)) >= 0).all()
    assert len(np.unique(curve_positions(points))) == 8


def test_the_curve_spans_three_times_the_middle_of_the_points():
    bounds = curve_bounds(np.c_[np.linspace(0, 100, 101), np.zeros((101, 2))])
    np.testing.assert_allclose(bounds[:, 0], [-97, 3 * 98])
    assert (bounds[1] > 0).all()


def test_neighbours_along_the_curve_are_near():
    points = POINTS["ball"].astype(np.float32)
    along = points[np.argsort(curve_positions(points))]
    apart, as_given = (np.linalg.norm(np.diff(p, axis=0), axis=1).mean() for p in (along, points))
    assert apart < 0.25 * as_given

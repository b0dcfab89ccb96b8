"""Axes of SPZ in other programs, as docs/formats.md states them."""

import json

import numpy as np
import pytest

from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.gaussians.formats.spz import AXES
from tests.gaussians.formats.differences import differences, shapes
from tests.gaussians.formats.test_round_trips import splats_in_range

LIMITS = {"opacity": 0.002, "color": 0.004, "log_scale": 1 / 32, "position": 2e-4, "sh": 0.1}
HALF_TURN = np.array([1, -1, -1])


def assert_alike(source, other):
    """Shapes instead of rotations: an axis of a splat may point either way."""
    for name, error in differences(source, other).items():
        assert error <= LIMITS.get(name, np.inf), name
    np.testing.assert_allclose(shapes(other), shapes(source), atol=0.03)


@pytest.mark.parametrize("axes", ["RUB", "RDF"])
def test_the_library_of_niantic_reads_ours(adobe_spz, tmp_path, axes):
    """RUB files are written as version 3, where it finds no extension, RDF files as version 4."""
    splats = splats_in_range(50)
    write_splats(tmp_path / "ours.spz", splats, spz_axes=axes)
    seen = json.loads(adobe_spz(tmp_path / "ours.spz", tmp_path / "theirs.spz", "RDF"))
    np.testing.assert_allclose(np.reshape(seen["positions"], (50, 3)), splats.means, atol=1e-5)
    np.testing.assert_allclose(np.reshape(seen["sh"], (50, 15, 3)), splats.shN, atol=1 / 32)
    dot = np.abs((np.roll(np.reshape(seen["rotations"], (50, 4)), 1, axis=1) * splats.quats).sum(axis=1))
    np.testing.assert_allclose(dot / np.linalg.norm(splats.quats, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("axes", AXES[1:])
def test_we_read_what_the_library_of_niantic_states(adobe_spz, tmp_path, axes):
    splats = splats_in_range(50)
    write_splats(tmp_path / "ours.spz", splats, spz_axes="RDF")
    adobe_spz(tmp_path / "ours.spz", tmp_path / "theirs.spz", axes)
    assert_alike(splats, read_splats(tmp_path / "theirs.spz"))


def test_spark_takes_axes_as_they_are(spark, tmp_path):
    """Its world has y up: RUB is upright, a PLY has to be rotated by 180 degrees about x. Its files state no axes."""
    splats = splats_in_range(50)
    write_splats(tmp_path / "ours.spz", splats)
    spark(tmp_path / "ours.spz", tmp_path / "theirs.spz")
    assert_alike(splats, read_splats(tmp_path / "theirs.spz"))
    for suffix in (".ply", ".compressed.ply", ".sog"):
        write_splats(tmp_path / f"ours{suffix}", splats)
        spark(tmp_path / f"ours{suffix}", tmp_path / "theirs.spz")
        shown = read_splats(tmp_path / "theirs.spz", "RDF")
        expected = np.sort(read_splats(tmp_path / f"ours{suffix}").means, axis=0)
        np.testing.assert_allclose(np.sort(shown.means, axis=0), expected, atol=1e-3)


def test_splat_transform_takes_axes_for_those_of_a_ply(splat_transform, tmp_path):
    """It ignores the stated axes."""
    splats = splats_in_range(50)
    write_splats(tmp_path / "ours.spz", splats)
    splat_transform(tmp_path / "ours.spz", tmp_path / "theirs.ply")
    np.testing.assert_allclose(read_splats(tmp_path / "theirs.ply").means, splats.means * HALF_TURN, atol=1e-5)

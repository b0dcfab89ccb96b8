"""splat-transform reads our files, and we read its files, within the precision of the formats."""

import numpy as np
import pytest

from splat_cli.gaussians.formats import read_splats, write_splats
from tests.gaussians.formats.differences import differences
from tests.gaussians.formats.test_round_trips import splats_in_range

LIMITS = {
    ".splat": {"opacity": 0.002, "color": 0.002, "rotation": 1.6},  # its 0 is 127.5; ours is 128, as in the original
    ".spz": {"opacity": 0.002, "color": 0.004, "rotation": 0.2, "log_scale": 1 / 32, "position": 2e-4, "sh": 0.07},
    ".compressed.ply": {
        "opacity": 0.002,
        "color": 0.003,
        "rotation": 0.2,
        "log_scale": 0.005,
        "position": 0.005,
        "sh": 1 / 64,
    },
    ".sog": {
        "opacity": 0.004,
        "color": 0.005,
        "rotation": 1.6,
        "log_scale": 0.04,
        "position": 5e-4,
        "sh": 0.03,
    },
}


def matched(source, other):
    """`other` in the order of `source`, by position."""
    nearest = ((source.means[:, None] - other.means) ** 2).sum(axis=2).argmin(axis=1)
    assert len(set(nearest)) == len(source) == len(other)
    return other.select(nearest)


def assert_close(source, other, limits):
    for name, error in differences(source, matched(source, other)).items():
        assert error <= limits.get(name, 1e-6), name


@pytest.mark.filterwarnings("ignore:.*view-dependent colours:UserWarning")  # that .splat does not hold
@pytest.mark.parametrize("suffix", LIMITS)
def test_it_reads_our_files(splat_transform, tmp_path, suffix):
    splats = splats_in_range(600)
    write_splats(tmp_path / f"ours{suffix}", splats, spz_axes="RDF")
    splat_transform(tmp_path / f"ours{suffix}", tmp_path / "theirs.ply")
    theirs = read_splats(tmp_path / "theirs.ply")
    assert_close(splats, theirs, LIMITS[suffix])
    decoded = differences(read_splats(tmp_path / f"ours{suffix}"), theirs)  # both decode the bytes alike
    rotation = decoded.pop("rotation")
    assert rotation < (1.0 if suffix == ".splat" else 1e-3)
    assert max(decoded.values()) < 1e-6


@pytest.mark.parametrize("suffix", [".spz", ".compressed.ply", ".sog"])
@pytest.mark.parametrize("degree", [0, 3])
def test_we_read_its_files(splat_transform, tmp_path, suffix, degree):
    splats = splats_in_range(600, degree)
    write_splats(tmp_path / "ours.ply", splats)
    options = {".spz": ["--spz-version", 3], ".sog": ["--gpu", "cpu"]}.get(suffix, [])
    splat_transform(tmp_path / "ours.ply", *options, tmp_path / f"theirs{suffix}")
    theirs = read_splats(tmp_path / f"theirs{suffix}", spz_axes="RDF")
    assert theirs.sh_degree == degree
    its_palette = {"sh": 1.5} if suffix == ".sog" else {}  # 512 random entries for 600 splats: see the test below
    assert_close(splats, theirs, LIMITS[suffix] | its_palette)


@pytest.mark.parametrize("degree", [0, 3])
def test_its_spz_of_version_4_holds_the_same_as_version_3(splat_transform, tmp_path, degree):
    write_splats(tmp_path / "ours.ply", splats_in_range(600, degree))
    for version in (3, 4):
        splat_transform(tmp_path / "ours.ply", "--spz-version", version, tmp_path / f"{version}.spz")
    three, four = (read_splats(tmp_path / f"{version}.spz") for version in (3, 4))
    assert len(three) == len(four) == 600
    for name, array in three.arrays().items():
        np.testing.assert_array_equal(getattr(four, name), array, err_msg=name)


@pytest.mark.parametrize("written", [".ply", ".compressed.ply", ".sog", ".spz", ".glb"])
@pytest.mark.parametrize("ours", [".ply", ".splat", ".compressed.ply", ".sog", ".spz"])
def test_round_trip_through_it(splat_transform, tmp_path, ours, written):
    """It converts our file of each format to each format. The errors of both formats add up."""
    splats = splats_in_range(100, 0 if ".splat" in (ours, written) else 3)
    write_splats(tmp_path / f"ours{ours}", splats, spz_axes="RDF")
    options = {".spz": ["--spz-version", 4], ".sog": ["--gpu", "cpu"]}.get(written, [])
    splat_transform(tmp_path / f"ours{ours}", *options, tmp_path / f"theirs{written}")
    theirs = read_splats(tmp_path / f"theirs{written}", spz_axes="RDF")
    both = [LIMITS.get(suffix, {}) for suffix in (ours, written)]
    limits = {name: sum(limit.get(name, 1e-6) for limit in both) for name in set().union(*both)}
    assert_close(splats, theirs, limits | ({"sh": 2.0} if written == ".sog" else {}))


def test_both_decode_its_sog_alike(splat_transform, tmp_path):
    write_splats(tmp_path / "ours.ply", splats_in_range(600))
    splat_transform(tmp_path / "ours.ply", "--gpu", "cpu", tmp_path / "theirs.sog")
    splat_transform(tmp_path / "theirs.sog", tmp_path / "theirs.ply")
    decoded = differences(read_splats(tmp_path / "theirs.sog"), read_splats(tmp_path / "theirs.ply"))
    assert decoded.pop("rotation") < 1e-3
    assert max(decoded.values()) < 1e-6


def test_opaque_splats_survive_its_ply(splat_transform, tmp_path):
    """It decodes the opacity byte 255 to an infinite logit."""
    splats = splats_in_range(300)
    splats.logit_opacities[:] = 9
    write_splats(tmp_path / "ours.spz", splats)
    splat_transform(tmp_path / "ours.spz", tmp_path / "theirs.ply")
    back = read_splats(tmp_path / "theirs.ply")
    assert len(back) == 300
    assert np.isfinite(back.logit_opacities).all()

"""`write_splats` warns of splats that it leaves out and of values that it rounds."""

import dataclasses
import warnings

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.gaussians.editing.edits import in_morton_order
from splat_cli.gaussians.formats import FORMATS, read_splats, write_splats
from splat_cli.gaussians.formats.streamed_sog import write_streamed_sog
from splat_cli.scene.trajectories.focus import overview
from tests.gaussians.some_splats import some_splats

SUFFIXES = [found.suffix for found in FORMATS.values()]
PARAMETERS = ("means", "log_scales", "quats", "logit_opacities", "sh0", "shN")


_SH = "view-dependent colours (spherical harmonics) were dropped"
pytestmark = pytest.mark.filterwarnings("ignore:.*view-dependent colours")  # .splat drops them


def warnings_of(path, splats, with_sh=False):
    """The messages of the warnings of `write_splats`. with_sh: also on harmonics that the format drops."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write_splats(path, splats)
    assert {entry.category for entry in caught} <= {UserWarning}
    return [str(entry.message) for entry in caught if _SH not in str(entry.message) or with_sh]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", PARAMETERS)
def test_one_non_finite_splat_leaves_the_others_as_they_are(tmp_path, name, bad, suffix):
    splats = some_splats(300, 1)
    getattr(splats, name).reshape(300, -1)[7, 0] = bad
    found = warnings_of(tmp_path / f"bad{suffix}", splats)
    is_opaque = name == "logit_opacities" and bad == np.inf
    left = np.ones(300, bool)
    left[7] = is_opaque
    assert found == ([] if is_opaque else [f"{tmp_path / f'bad{suffix}'}: left out 1 splats that are not finite"])
    splats.logit_opacities[7] = 16 if is_opaque else 0
    write_splats(tmp_path / f"good{suffix}", splats.select(left))
    back, expected = read_splats(tmp_path / f"bad{suffix}"), read_splats(tmp_path / f"good{suffix}")
    assert (len(back), back.num_dropped) == (left.sum(), 0)
    for key, array in expected.arrays().items():
        np.testing.assert_array_equal(getattr(back, key), array, err_msg=key)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("sh_degree", 2, _SH),
        ("antialiased", True, "cannot say that the splats are antialiased"),
        (
            "origin",
            (5e5, 5.4e6, 30.5),
            "cannot state the origin, 500000, 5400000, 30.5, that coordinates are relative to",
        ),
    ],
)
def test_what_a_file_does_not_give_back_is_warned_of(tmp_path, name, value, words, suffix):
    splats = some_splats(300, value if name == "sh_degree" else 0)
    if name != "sh_degree":
        splats = dataclasses.replace(splats, **{name: value})
    assert getattr(splats, name) == value
    path = tmp_path / f"a{suffix}"
    found = warnings_of(path, splats, with_sh=True)
    is_kept = getattr(read_splats(path), name) == value
    assert [words in line for line in found] == ([] if is_kept else [True])
    assert is_kept or name == "origin" or suffix == ".splat"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_without_a_finite_splat_is_not_written(tmp_path, suffix):
    splats = some_splats(3)
    splats.means[:, 1] = np.inf
    with pytest.raises(FormatError, match=r"a\..* was not written: none of the 3 splats is finite"):
        write_splats(tmp_path / f"a{suffix}", splats)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_rounded_positions_are_warned_of(tmp_path, suffix):
    """At 5.4 million, float32 has steps of 0.5, and SPZ with 24 bits per coordinate has steps of 1."""
    splats = some_splats(300, 0, log_scales=(-4, 0.1))
    splats.means += np.float32([500_000, 5_400_000, 0])
    (note,) = warnings_of(tmp_path / f"a{suffix}", splats)
    step = "1" if "spz" in suffix else "0.5"
    assert f"positions are stored in steps of {step} world units" in note
    splats.log_scales += 8
    assert warnings_of(tmp_path / f"a{suffix}", splats) == []


@pytest.mark.parametrize(("suffix", "is_coarse"), [(".ply", False), (".spz", True), (".sog", False)])
def test_one_far_splat_coarsens_all_positions_of_spz(tmp_path, suffix, is_coarse):
    splats = some_splats(300, 0, log_scales=(-4, 0.1))
    splats.means[0] = 1e6
    assert len(warnings_of(tmp_path / f"a{suffix}", splats)) == is_coarse
    apart = np.abs(in_morton_order(splats).means - in_morton_order(read_splats(tmp_path / f"a{suffix}")).means)
    assert (np.median(apart) > 0.01) == is_coarse


@pytest.mark.parametrize(("suffix", "is_coarse"), [(".ply", False), (".sog", True)])
def test_small_splats_in_a_large_scene_are_coarse_in_sog(tmp_path, suffix, is_coarse):
    """The step near the origin is 2 log(1 + 1e4) / 65535 = 2.8e-4; the splats there have a size of 5e-4."""
    splats = some_splats(300, 0, log_scales=(-7.6, 0.1))
    splats.means[:2] = [[1e4], [-1e4]]
    assert len(warnings_of(tmp_path / f"a{suffix}", splats)) == is_coarse


def test_splats_out_of_the_range_of_spz_are_warned_of(tmp_path):
    splats = some_splats(10, 0)
    splats.log_scales[:3] = 7
    (note,) = warnings_of(tmp_path / "a.spz", splats)
    assert "3 splats are larger, smaller or farther from the origin than the format can hold" in note


def absurd_splats():
    """Splats with any finite numbers, as from a file with properties in the wrong order."""
    splats = some_splats(300)
    rng = np.random.default_rng(1)
    for array in splats.arrays().values():
        array *= 10.0 ** rng.uniform(0, 37, array.shape)
    return splats


@pytest.mark.filterwarnings("ignore:.*(larger, smaller or farther|stored in steps):UserWarning")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_absurd_numbers_cause_no_warnings_of_numpy(tmp_path, suffix):
    write_splats(tmp_path / f"a{suffix}", absurd_splats())
    assert len(read_splats(tmp_path / f"a{suffix}")) > 0


def test_absurd_numbers_have_levels_of_detail_and_an_overview(tmp_path):
    splats = absurd_splats()
    assert write_streamed_sog(tmp_path / "lod-meta.json", splats, 3)[0] > 0
    assert overview(splats.means).is_in_range

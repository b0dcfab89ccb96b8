"""Splats written and read again in each format: lost properties, and limits of the changes."""

import dataclasses

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians.editing.edits import in_morton_order
from splat_cli.gaussians.formats import FORMATS, format_for, read_splats, write_splats
from splat_cli.gaussians.formats.compressed_ply import is_compressed_ply
from splat_cli.gaussians.formats.gltf import EXTENSION, SPZ_EXTENSION, read_container, write_container
from splat_cli.gaussians.formats.quantize import unit_quats
from splat_cli.gaussians.splats import Splats
from tests.gaussians.formats.differences import differences
from tests.gaussians.some_splats import some_splats
from tests.views import render_view, ring_of_views

COUNTS = (0, 1, 255, 256, 257, 600)
pytestmark = pytest.mark.filterwarnings("ignore:.*view-dependent colours")  # .splat drops them


def splats_in_range(count, degree=3):
    """Splats whose colours and coefficients are in the range of every format."""
    splats = some_splats(count, degree)
    splats.sh0[:] = np.clip(splats.sh0, -1.7, 1.7)
    splats.shN[:] = np.clip(splats.shN / 3, -0.9, 0.9)
    return splats


def there_and_back(splats, path):
    """(splats in the file's order, splats read from the file)."""
    write_splats(path, splats)
    return (in_morton_order(splats) if path.name.endswith((".compressed.ply", ".sog")) else splats), read_splats(path)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    ("suffix", "limits"),
    [
        (".ply", {}),
        (".glb", {"log_scale": 1e-5, "rotation": 1e-4}),
        (".splat", {"opacity": 0.002, "color": 0.002, "rotation": 0.8}),
        (".spz.glb", {"opacity": 0.002, "color": 0.004, "rotation": 0.2, "log_scale": 1 / 32, "sh": 1 / 64}),
        (".spz", {"opacity": 0.002, "color": 0.004, "rotation": 0.2, "log_scale": 1 / 32, "sh": 1 / 64}),
        (
            ".compressed.ply",
            {"opacity": 0.002, "color": 0.003, "rotation": 0.2, "log_scale": 0.005, "position": 0.005, "sh": 1 / 64},
        ),
        (".sog", {"opacity": 0.002, "color": 0.005, "rotation": 0.8, "log_scale": 0.04, "position": 5e-4, "sh": 0.015}),
    ],
)
def test_changes_by_a_format(tmp_path, suffix, limits, count):
    source, back = there_and_back(splats_in_range(count), tmp_path / f"a{suffix}")
    assert len(back) == count
    assert back.sh_degree == (0 if suffix == ".splat" else 3)
    for name, error in differences(source, back).items():
        assert error <= limits.get(name, 1e-6), name


@pytest.mark.parametrize("suffix", [found.suffix for found in FORMATS.values()])
def test_order_of_numbers_in_memory_does_not_count(tmp_path, suffix):
    splats = some_splats(20)
    columns = dataclasses.replace(splats, **{name: np.asfortranarray(a) for name, a in splats.arrays().items()})
    for name, source in (("rows", splats), ("columns", columns)):
        write_splats(tmp_path / f"{name}{suffix}", source)
    assert (tmp_path / f"rows{suffix}").read_bytes() == (tmp_path / f"columns{suffix}").read_bytes()


@pytest.mark.parametrize("length", [1e-38, 1e-20, 1e18, 1e25])
def test_quaternions_of_any_length_are_shown_and_written_alike(tmp_path, length):
    """float32 cannot hold their squares; the picture showed unrotated splats."""
    splats, view, backend = some_splats(60), ring_of_views(1)[0], open_backend("cpu")
    splats.log_scales -= 2
    odd = dataclasses.replace(splats, quats=unit_quats(splats.quats).astype(np.float32) * np.float32(length))
    pictures = [render_view(backend, Splats.from_arrays(backend, one), view) for one in (splats, odd)]
    assert np.abs(pictures[0] - pictures[1]).max() < 1e-3


@pytest.mark.parametrize("degree", range(4))
@pytest.mark.parametrize("suffix", [".spz", ".spz.glb", ".compressed.ply", ".sog", ".ply", ".glb"])
def test_degrees(tmp_path, suffix, degree):
    source, back = there_and_back(splats_in_range(20, degree), tmp_path / f"a{suffix}")
    assert back.sh_degree == degree
    assert differences(source, back)["sh"] <= 1 / 64


@pytest.mark.filterwarnings("ignore:.*larger, smaller or farther from the origin")
@pytest.mark.parametrize("suffix", [found.suffix for found in FORMATS.values()])
def test_extreme_splats_stay_finite(tmp_path, suffix):
    splats = some_splats(6)
    splats.log_scales[0] = [-300, 300, 0]
    splats.logit_opacities[:2] = [-300, 300]
    splats.quats[1] = 0
    splats.quats[2] = 1e-30
    splats.means[3] = [1e6, -1e6, 3]
    splats.sh0[4] = 100
    write_splats(tmp_path / f"a{suffix}", splats)
    back = read_splats(tmp_path / f"a{suffix}")
    assert (len(back), back.num_dropped) == (6, 0)


def test_sog_makes_a_palette_of_many_coefficients(tmp_path):
    """5000 vectors around 300 centres: fewer entries than splats, and small errors."""
    splats = splats_in_range(5000, 1)
    rng = np.random.default_rng(0)
    middles = rng.uniform(-0.9, 0.9, (300, 3, 3))
    splats.shN[:] = middles[rng.integers(300, size=5000)] + rng.normal(0, 0.005, (5000, 3, 3))
    source, back = there_and_back(splats, tmp_path / "a.sog")
    assert len(np.unique(back.shN.reshape(5000, -1), axis=0)) <= 1024
    assert np.sqrt(np.mean((source.shN - back.shN) ** 2)) < 0.02


def test_formats_are_found_by_name_content_and_option(tmp_path):
    write_splats(tmp_path / "a.ply", some_splats(5), "compressed-ply")
    assert is_compressed_ply(tmp_path / "a.ply")
    assert len(read_splats(tmp_path / "a.ply")) == 5
    assert format_for(tmp_path / "A.COMPRESSED.PLY") is FORMATS["compressed-ply"]
    with pytest.raises(UsageError, match=r"a\.obj .* \.spz"):
        format_for(tmp_path / "a.obj")


def test_glb_with_spz_holds_the_spz_alone(tmp_path):
    """Accessors state types and counts, but have no data; the .spz keeps its own axes."""
    splats = splats_in_range(50)
    write_splats(tmp_path / "a.spz.glb", splats)
    write_splats(tmp_path / "a.spz", splats)
    document, content = read_container((tmp_path / "a.spz.glb").read_bytes())
    assert [accessor["count"] for accessor in document["accessors"]] == [50] * 21
    assert not any("bufferView" in accessor for accessor in document["accessors"])
    assert document["extensionsRequired"] == [EXTENSION, SPZ_EXTENSION]
    (tmp_path / "inner.spz").write_bytes(bytes(content[: document["buffers"][0]["byteLength"]]))
    inner, alone = read_splats(tmp_path / "inner.spz"), read_splats(tmp_path / "a.spz")
    for name, array in alone.arrays().items():
        np.testing.assert_array_equal(inner.arrays()[name], array)


def test_spz_in_two_primitives_of_a_glb_is_refused(tmp_path):
    """Otherwise, a small file could unpack any number of times."""
    write_splats(tmp_path / "a.spz.glb", splats_in_range(50))
    document, content = read_container((tmp_path / "a.spz.glb").read_bytes())
    document["meshes"][0]["primitives"] *= 2
    (tmp_path / "b.glb").write_bytes(write_container(document, bytes(content)))
    with pytest.raises(FormatError, match="read parts of the buffer more than once"):
        read_splats(tmp_path / "b.glb")

"""`splat export`: formats and edits from the command line, and the files as input of other commands."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from splat_cli.gaussians.formats import FORMATS, read_splats, write_splats
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_cameras
from tests.gaussians.some_splats import some_splats
from tests.gaussians.test_ply import columns_of, write_foreign
from tests.viewer.page import Page


def test_the_command_knows_every_format(splat, trained):
    for name in (*FORMATS, "html"):
        assert name in splat("export", "--help").out
    assert "'obj' is not one of 'compressed-ply', 'ply'" in splat("export", trained, "a.ply", "--format", "obj").err


def test_missing_output_name_is_reported(splat, trained):
    assert splat("export", trained).err.startswith("Error: name the file to write, too: splat export ")
    assert ".glb, .html" in splat("export", trained, "garden.obj").err


def test_trained_splats_of_a_run_are_not_overwritten(splat, trained, tmp_path):
    path = RunDir(trained).ply_path(20)
    (tmp_path / "link.ply").symlink_to(path)
    before = path.read_bytes()
    for out in (path, tmp_path / "link.ply"):
        result = splat("export", trained, out, "--max-splats", "10")
        assert (result.code, "is a file of the run" in result.err) == (2, True)
    assert path.read_bytes() == before


def test_streamed_levels_of_detail(splat, trained, tmp_path):
    written = splat("export", trained, tmp_path / "town" / "lod-meta.json", "--lod", "3", "--json")
    counts = json.loads(written.out)["counts"]
    assert [counts[0], *counts[1:]] == [counts[0], (counts[0] + 1) // 2, ((counts[0] + 1) // 2 + 1) // 2]
    assert json.loads((tmp_path / "town" / "lod-meta.json").read_text())["counts"] == counts
    assert (tmp_path / "town" / "2_0" / "meta.json").is_file()


def test_tiles_need_no_number_of_levels(splat, trained, tmp_path):
    written = splat("export", trained, tmp_path / "town" / "tileset.json", "--json")
    assert len(json.loads(written.out)["counts"]) == 1
    assert (tmp_path / "town" / "0_0.glb").is_file()
    refused = splat("export", trained, tmp_path / "town" / "tileset.json", "--lod", "3")
    assert (refused.code, "tileset.json has as many levels of detail as its splats need" in refused.err) == (2, True)


def test_formats_without_harmonics_are_reported(splat, trained, tmp_path):
    result = splat("export", trained, tmp_path / "a.splat")
    assert "spherical harmonics of degree 0" in result.out
    assert "view-dependent colours (spherical harmonics) were dropped" in result.out
    assert "dropped" not in splat("export", trained, tmp_path / "a.spz").out


@pytest.mark.parametrize("strict", [("--min-opacity", "1"), ("--crop", "900,900,900,1"), ("--min-size", "1e9")])
def test_a_file_without_splats_is_not_written(splat, trained, tmp_path, strict):
    result = splat("export", trained, "nothing.ply", *strict)
    assert result.code == 2
    assert "is left: crop less, or lower the limits" in result.err
    assert list((tmp_path / "cwd").iterdir()) == []


def test_values_out_of_a_formats_range_are_reported(splat, trained):
    """Splats in millimetres are too large for SPZ; in kilometres they are too small."""
    assert "were cut" not in splat("export", trained, "a.spz", "--no-bake").out
    for name, scale in (("large.spz", "1e5"), ("small.spz", "1e-6")):
        result = splat("export", trained, name, "--scale", scale, "--no-bake")
        assert "larger, smaller or farther from the origin than the format can hold" in result.out, result.err
    assert "were cut" not in splat("export", trained, "large.sog", "--scale", "1e5", "--no-bake").out


def test_dropped_spherical_harmonics_are_reported_once(splat, trained, tmp_path):
    """Export, render and info report it for a PLY of degree 4."""
    rows = read_ply(RunDir(trained).ply_path(20))
    columns = columns_of(rows) | {f"f_rest_{i}": np.zeros(len(rows)) for i in range(72)}
    path = write_foreign(tmp_path / "gsplat.ply", columns)
    note = "dropped spherical harmonics of degree 4: 3 is the highest that is rendered"
    assert splat("export", path, "a.ply").out.count(note) == 1
    render = ("render", path, "--path", "orbit", "--frames", "1", "--size", "32x24", "--device", "cpu")
    assert splat(*render).err.count(note) == 1
    assert "of 4 in the file" in splat("info", path).out


def test_nonfinite_splats_are_reported(splat, trained, tmp_path):
    source = read_ply(RunDir(trained).ply_path(20))
    source.means[:3] = np.nan
    write_ply(tmp_path / "some.ply", source)
    source.means[:] = np.nan
    write_ply(tmp_path / "none.ply", source)
    assert "left out 3 splats that are not finite" in splat("export", tmp_path / "some.ply", "a.ply").out
    render = ("render", tmp_path / "some.ply", "--path", "orbit", "--frames", "1", "--size", "32x24", "--device", "cpu")
    assert "left out 3 splats that are not finite" in splat(*render).err
    result = splat("export", tmp_path / "none.ply", "b.ply")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"none of the {len(source):,} splats is finite" in result.err
    assert not (tmp_path / "cwd" / "b.ply").exists()


@pytest.mark.parametrize(
    "out", [*(f"a{found.suffix}" for found in FORMATS.values()), "a.html", "a/lod-meta.json", "a/tileset.json"]
)
def test_edits_that_leave_no_finite_splat_write_no_file(splat, trained, tmp_path, out):
    result = splat("export", trained, out, "--translate", "1e39,0,0")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "splats is finite after the edits: scale or translate less" in result.err
    assert not (tmp_path / "cwd" / out).exists()


def test_splats_made_infinite_by_edits_are_omitted(splat, trained, tmp_path):
    source = read_ply(RunDir(trained).ply_path(20))
    source.means[:2, 0] = 3e38
    write_ply(tmp_path / "far.ply", source)
    result = splat("export", tmp_path / "far.ply", "a.ply", "--translate", "2e38,0,0")
    assert "left out 2 splats that are not finite after the edits" in result.out
    assert "Warning" not in result.err
    back = read_ply(tmp_path / "cwd" / "a.ply")
    assert (len(back), back.num_dropped) == (len(source) - 2, 0)


@pytest.mark.parametrize("out", ["a.ply", "a.splat", "a.sog", "a.glb", "a.html", "a/lod-meta.json"])
def test_rounded_positions_are_reported(splat, trained, out):
    note = "positions are stored in steps of 0.5 world units, which is coarse for splats of this size"
    far = splat("export", trained, out, "--translate", "500000,5400000,0")
    assert far.code == 0
    assert note in far.out
    assert "positions are stored" not in splat("export", trained, out, "--translate", "5,54,0").out


@pytest.mark.parametrize("suffix", [found.suffix for found in FORMATS.values()])
def test_any_format_is_described_rendered_and_converted(splat, trained, tmp_path, suffix):
    source = read_ply(RunDir(trained).ply_path(20))
    assert splat("export", trained, f"a{suffix}").code == 0
    info = splat("info", f"a{suffix}")
    assert f"{len(source):,}" in info.out
    assert splat("export", f"a{suffix}", "back.ply").code == 0
    assert len(read_ply(tmp_path / "cwd" / "back.ply")) == len(source)
    cameras = ["--cameras", RunDir(trained).cameras_path, "--size", "40x30", "--device", "cpu"]
    rendered = splat("render", f"a{suffix}", *cameras, "-o", "pictures")
    assert rendered.code == 0, rendered.err


def test_a_start_view_of_two_photographs_is_refused(splat, trained, tmp_path):
    """The first one with this name before the suffix was shown."""
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    names = ("left/a.jpg", "right/a.jpg", "b.jpg", "b")
    views = [dataclasses.replace(view, name=name) for view, name in zip(run.views("all"), names, strict=False)]
    run.save_cameras(views)
    result = splat("export", run.path, tmp_path / "a.html", "--start-view", "a")
    assert (result.code, "left/a.jpg or right/a.jpg? Give the whole name" in result.err) == (2, True)
    for name in ("left/a.jpg", "b"):
        assert splat("export", run.path, tmp_path / "a.html", "--start-view", name).code == 0


def test_page_opens_at_the_start_view(splat, trained, tmp_path):
    """A name, a number or a file of cameras. Antialiasing is not baked in, because the page's viewer supports it."""
    cameras = RunDir(trained).cameras_path
    pages = []
    for number, camera in enumerate(("a_02.jpg", "a_02", "2", cameras, None)):
        options = [] if camera is None else ["--start-view", camera]
        result = splat("export", trained, f"{number}.html", *options)
        assert result.code == 0, result.err
        pages.append(Page(tmp_path / "cwd" / f"{number}.html").scene)
    assert pages[0]["antialiased"]
    assert pages[0] == pages[1] == pages[2]
    assert pages[0]["views"] != pages[3]["views"] == pages[4]["views"]
    assert splat("export", RunDir(trained).ply_path(20), "a.spz", "--no-bake").code == 0
    assert splat("export", "a.spz", "a", "--format", "html").code == 0
    assert Page(tmp_path / "cwd" / "a").scene["antialiased"]


def test_axes_of_spz(splat, trained, tmp_path):
    """OUT states its axes; --spz-axes gives the axes of a source that does not state them."""
    source = RunDir(trained).ply_path(20)
    assert "--spz-axes rdf" in splat("export", source, "rub.spz").out
    assert "--spz-axes" not in splat("export", source, "rdf.spz", "--spz-axes", "rdf").out
    rub, rdf = (read_splats(tmp_path / "cwd" / f"{axes}.spz") for axes in ("rub", "rdf"))
    np.testing.assert_array_equal(rub.means, rdf.means)
    path = tmp_path / "cwd" / "rdf.spz"
    content = bytearray(path.read_bytes())
    content[14] &= 1  # no extensions
    path.write_bytes(content)
    splat("export", "rdf.spz", "right.ply", "--spz-axes", "rdf")
    splat("export", "rdf.spz", "wrong.ply")
    right, wrong = (read_splats(tmp_path / "cwd" / f"{name}.ply") for name in ("right", "wrong"))
    np.testing.assert_array_equal(right.means, rub.means)
    np.testing.assert_array_equal(wrong.means, rub.means * [1, -1, -1])
    refused = splat("export", source, "a.sog", "--spz-axes", "rub")
    assert (refused.code, "--spz-axes are axes of .spz files: leave it out for a.sog" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("out", "camera", "expected"),
    [
        ("a.html", "missing", "expected 0 to 8 or a name such as a_00.jpg"),
        ("a.html", "9", "expected 0 to 8"),
        ("a.html", "missing.json", "missing.json"),
        ("a.spz", "1", "ends in .html"),
    ],
)
def test_unknown_start_views_are_refused(splat, trained, out, camera, expected):
    result = splat("export", trained, out, "--start-view", camera)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert expected in result.err


def test_format_option_overrides_the_suffix(splat, trained, tmp_path):
    assert splat("export", trained, "a.ply", "--format", "compressed-ply").code == 0
    assert b"packed_position" in (tmp_path / "cwd" / "a.ply").read_bytes()[:2000]


def test_edits(splat, trained, tmp_path):
    source = read_ply(RunDir(trained).ply_path(20))
    edits = ["--scale", "2", "--rotate", "0,0,180", "--translate", "1,-2,3", "--max-splats", len(source) - 1]
    result = splat("export", trained, "a.ply", *edits)
    assert result.code == 0, result.err
    moved = read_splats(tmp_path / "cwd" / "a.ply").means
    expected = source.means * [-2, -2, 2] + [1, -2, 3]
    distances = np.linalg.norm(moved[:, None] - expected, axis=2)
    assert len(moved) == len(source) - 1
    assert distances.min(axis=1).max() < 1e-4


@pytest.mark.parametrize(("length", "metres"), [("1.25m", 1.25), ("80cm", 0.8), ("2 FT", 0.6096), ("3", 3.0)])
def test_two_points_and_a_length_set_the_scale(splat, trained, tmp_path, length, metres):
    source = read_ply(RunDir(trained).ply_path(20))
    a, b = source.means[0], source.means[-1]
    points = [",".join(map(str, point)) for point in (a, b)]
    result = splat("export", trained, "a.ply", "--no-bake", "--scale-by", *points, length, "--cameras", "a.json")
    assert result.code == 0, result.err
    moved = read_splats(tmp_path / "cwd" / "a.ply").means
    factor = metres / np.linalg.norm(b - a)
    assert np.linalg.norm(moved[-1] - moved[0]) == pytest.approx(metres, rel=1e-5)
    np.testing.assert_allclose(moved, source.means * factor, rtol=1e-5, atol=1e-5)
    cameras = read_cameras(tmp_path / "cwd" / "a.json")
    np.testing.assert_allclose(cameras[0].center, factor * RunDir(trained).views("all")[0].center, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--scale-by", "0,0,0", "0,0,0", "1m"], "at one place"),
        (["--scale-by", "0,0,0", "1,0,0", "1m", "--scale", "2"], "exclude each other"),
        (["--scale-by", "0,0,0", "1,0,0", "1 parsec"], "expected a length over 0"),
        (["--scale-by", "0,0,0", "1,0,0", "-1m"], "expected a length over 0"),
        (["--scale-by", "0,0", "1,0,0", "1m"], "expected X,Y,Z"),
        (["--upright", "--rotate", "0,0,1"], "exclude each other"),
    ],
)
def test_wrong_scales_and_rotations_are_refused(splat, trained, options, expected):
    result = splat("export", trained, "a.ply", *options)
    assert (result.code, expected in result.err) == (2, True)


def test_upright_turns_the_up_direction_of_the_cameras_to_minus_y(splat, trained, tmp_path, monkeypatch):
    up = np.array([0.6, 0.0, -0.8])
    monkeypatch.setattr("splat_cli.commands.export.up_direction", lambda views, points: up)
    assert splat("export", trained, "file.ply", "--no-bake").code == 0
    both = splat("export", "file.ply", trained, "both.ply", "--upright")
    assert "as --rotate " in both.out
    result = splat("export", trained, "a.ply", "--no-bake", "--upright")
    assert result.code == 0, result.err
    assert "upright: turned by 90.0 degrees, as --rotate " in result.out
    before, after = read_ply(RunDir(trained).ply_path(20)).means, read_splats(tmp_path / "cwd" / "a.ply").means
    np.testing.assert_allclose(after[:, 1], -before @ up, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), atol=1e-5)


def test_upright_levels_the_ground_of_a_file(splat, tmp_path):
    ground = some_splats(2000)
    ground.means[:, 1] = 0.2 * ground.means[:, 0] + 3
    write_ply(tmp_path / "ground.ply", ground)
    result = splat("export", tmp_path / "ground.ply", "a.ply", "--upright")
    assert result.code == 0, result.err
    assert np.ptp(read_splats(tmp_path / "cwd" / "a.ply").means[:, 1]) < 1e-4 * np.ptp(ground.means[:, 0])
    write_ply(tmp_path / "ground.ply", some_splats(10))
    result = splat("export", tmp_path / "ground.ply", "a.ply", "--upright")
    assert (result.code, "neither cameras nor a ground" in result.err) == (2, True)


def test_cameras_move_with_the_splats(splat, trained, tmp_path):
    edits = ["--scale", "2", "--rotate", "0,0,180", "--translate", "1,-2,3"]
    result = splat("export", trained, "a.ply", *edits, "--no-bake", "--cameras", "moved.json")
    assert result.code == 0, result.err
    run = RunDir(trained)
    for name, file, cameras in (("moved", "a.ply", "moved.json"), ("own", run.ply_path(20), run.cameras_path)):
        options = ["--cameras", cameras, "-o", name, "--no-antialias", "--background", "black", "--device", "cpu"]
        assert splat("render", file, *options).code == 0
    for path in (tmp_path / "cwd" / "own").glob("*.png"):
        own, moved = (np.array(Image.open(tmp_path / "cwd" / name / path.name), float) for name in ("own", "moved"))
        assert np.abs(own - moved).mean() < 1


def test_options_of_files_and_pages_with_levels_of_detail_in_chunks(splat, trained, tmp_path):
    assert splat("export", trained, "a/lod-meta.json", "--cameras", "cameras.json").code == 0
    assert read_cameras(tmp_path / "cwd" / "cameras.json")
    for name in ("lod-meta.json", "tileset.json"):
        refused = splat("export", trained, f"b/{name}", "--start-view", "0")
        assert (refused.code, "--start-view needs a page" in refused.err) == (2, True)
    refused = splat("export", trained, "b/lod-meta.json", "--lod", "2", "--lod-steps", "3")
    assert (refused.code, "--lod-steps needs" in refused.err) == (2, True)
    assert not (tmp_path / "cwd" / "b").exists()


def test_cameras_are_not_written_to_the_file_of_splats(splat, trained, tmp_path):
    for out, cameras, options in (("a.ply", "./a.ply", []), ("a.spz", "a_lod1.spz", ["--lod", "2"])):
        refused = splat("export", trained, out, "--cameras", cameras, *options)
        assert (refused.code, "name another file for --cameras" in refused.err) == (2, True)
        assert not (tmp_path / "cwd" / cameras).exists()


def test_files_have_no_cameras_to_export(splat, trained):
    assert splat("export", trained, "a.ply").code == 0
    result = splat("export", "a.ply", "b.ply", "--cameras", "c.json")
    assert result.code == 2
    assert "0 of the sources are runs" in result.err


def test_several_sources_are_merged(splat, trained):
    assert splat("export", trained, "a.splat").code == 0
    result = splat("export", trained, "a.splat", trained, "b.spz", "--morton")
    assert result.code == 0, result.err
    num = len(read_ply(RunDir(trained).ply_path(20)))
    assert f"{3 * num:,} splats" in result.out


def test_file_of_unknown_format_is_named(splat, tmp_path):
    (tmp_path / "cwd" / "a.obj").write_text("o a")
    result = splat("info", "a.obj")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert ".compressed.ply" in result.err


@pytest.mark.parametrize("suffix", [".ply", ".compressed.ply", ".spz", ".sog", ".glb"])
def test_antialiasing_is_stored_if_the_format_can(splat, trained, tmp_path, suffix):
    trained_so = RunDir(trained).config().antialias
    result = splat("export", trained, f"a{suffix}", "--no-bake")
    assert ("--antialias" in result.out) == trained_so
    assert read_splats(tmp_path / "cwd" / f"a{suffix}").antialiased == trained_so
    splats = read_ply(RunDir(trained).ply_path(20))
    assert splats.antialiased == trained_so
    assert splat("export", trained, f"c{suffix}").code == 0
    assert not read_splats(tmp_path / "cwd" / f"c{suffix}").antialiased
    for said in (True, False):
        write_splats(tmp_path / f"b{suffix}", dataclasses.replace(splats, antialiased=said))
        assert read_splats(tmp_path / f"b{suffix}").antialiased == said


def test_contribution_and_levels_need_a_run(splat, trained, tmp_path):
    assert splat("export", trained, "a.ply", "--no-bake").code == 0
    for options in (["--min-contribution", "1"], ["--lod", "2"], ["--lod-steps", "5"]):
        result = splat("export", "a.ply", "b.ply", *options)
        assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert splat("export", "a.ply", "b.ply", "--max-splats", "10", "--clean", "0.1").code == 0
    assert len(read_ply(tmp_path / "cwd" / "b.ply")) == 10
    everything = splat("export", trained, "c.ply", "--min-contribution", "1e-9")
    assert everything.code == 0, everything.err


def test_large_pages_are_reported(splat, trained, monkeypatch):
    monkeypatch.setattr("splat_cli.commands.export._MANY", 10)
    assert "are slow on phones" in splat("export", trained, "a.html").out
    assert "are slow on phones" not in splat("export", trained, "a.sog").out


def test_sources_with_and_without_antialiasing_are_named(splat, trained, tmp_path):
    """One file says of all its splats how they are shown."""
    assert splat("export", trained, "one.ply", "--no-bake").code == 0
    other = shutil.copytree(trained, tmp_path / "other")
    config = other / "config.toml"
    config.write_text(config.read_text().replace("antialias = true", "antialias = false"))
    assert "are antialiased and some are not" in splat("export", "one.ply", other, "two.ply").out
    assert "are antialiased and some are not" not in splat("export", trained, other, "two.ply").out

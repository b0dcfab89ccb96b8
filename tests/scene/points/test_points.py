"""Points of a scene: their selection, crops, point cloud files, laser scans, and random ones."""

import dataclasses
import io
import subprocess
import sys

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.errors import FormatError, SceneError, UsageError
from splat_cli.gaussians.ply import write_ply
from splat_cli.processes.child_process import child_environment
from splat_cli.run.setup.training_data import read_data, with_initial_points
from splat_cli.scene import SceneOptions, read_scene
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.crop import Box, Sphere, parse_crop
from splat_cli.scene.dataset import Points
from splat_cli.scene.points.initial_points import kept_points, random_points
from splat_cli.scene.points.point_cloud import is_point_cloud, read_point_cloud
from splat_cli.terminal.console import Display
from tests.gaussians.some_splats import some_splats
from tests.scene.depth_files import write_las
from tests.scene.models import small_model, write_scene
from tests.scene.transforms_files import write_point_cloud
from tests.small_scene import write_small_scene
from tests.views import ring_of_views

POSITIONS = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [np.nan, 0, 0], [3, 3, 3], [-0.0, 0, 0]])


def points(**more):
    return Points(POSITIONS, np.arange(18, dtype=np.uint8).reshape(6, 3), **more)


def test_duplicates_and_nonfinite_points():
    kept, colors, dropped = kept_points(points(), SceneOptions())
    np.testing.assert_array_equal(kept, [[0, 0, 0], [1, 0, 0], [3, 3, 3]])
    np.testing.assert_array_equal(colors[:, 0], [0, 3, 12])
    assert dropped == {"not finite": 1, "duplicates": 2}


@pytest.mark.parametrize(
    ("options", "left", "reason"),
    [
        ({"min_track_length": 3}, 1, "in fewer than 3 photographs"),
        ({"max_point_error": 1.0}, 2, "off by more than 1 pixels"),
        ({"crop": Box((-1, -1, -1), (2, 2, 2))}, 2, "outside the crop"),
        ({"crop": Sphere((3, 3, 3), 1)}, 1, "outside the crop"),
    ],
)
def test_options_filter_points(options, left, reason):
    errors = np.array([0.5, 1.5, 0, 0, 1.0, 0])
    kept, _, dropped = kept_points(
        points(errors=errors, track_lengths=np.array([2, 2, 9, 9, 3, 9])), SceneOptions(**options)
    )
    assert len(kept) == left
    assert reason in dropped


def test_options_that_leave_no_point():
    with pytest.raises(SceneError, match="none of the 6 points is left .*3 outside the crop"):
        kept_points(points(), SceneOptions(crop=Sphere((9, 9, 9), 1)))


def test_points_that_are_all_damaged():
    with pytest.raises(SceneError, match="6 not finite.: write the model again, or use --init random"):
        kept_points(dataclasses.replace(points(), positions=np.full((6, 3), np.nan)), SceneOptions())


def test_points_of_a_model_whose_tracks_are_unknown_are_kept(tmp_path):
    """A model written without tracks has zeros as track lengths."""
    scene = read_scene(write_scene(tmp_path, small_model()), SceneOptions(min_track_length=3))
    assert len(scene.points) == 5


def test_crop_is_parsed():
    assert parse_crop("1, 2,3,4.5") == Sphere((1, 2, 3), 4.5)
    assert parse_crop("0,0,0,1,2,3") == Box((0, 0, 0), (1, 2, 3))
    for text in ("", "1,2,3", "1,2,3,0", "1,2,3,nan", "1,0,0,1,2,3", "a,b,c,d", "1,2,3,4,5,6,7"):
        with pytest.raises(UsageError, match="expected x,y,z,radius"):
            parse_crop(text)


def test_random_points_lie_where_cameras_look():
    positions, colors = random_points(ring_of_views(12, radius=3.0), 1000, np.random.default_rng(0))
    assert positions.dtype == np.float32
    assert colors.dtype == np.uint8
    distances = np.linalg.norm(positions, axis=1)
    assert distances.max() <= 8 * 1.5 + 1e-3
    near = np.abs(positions).max(axis=1) <= 1.5
    assert 500 <= near.sum() < 700
    assert np.abs(positions[near].mean(axis=0)).max() < 0.15


@pytest.mark.parametrize("num_views", [1, 2])
def test_random_points_around_few_cameras(num_views):
    views = [ring_of_views(1)[0]] * num_views
    positions, _ = random_points(views, 100, np.random.default_rng(0))
    assert np.isfinite(positions).all()


@pytest.mark.parametrize("name", ["a.las", "a.laz"])
@pytest.mark.parametrize(
    ("point_format", "factor"), [(2, 257), (2, 1), (0, None), (7, 257)], ids=["16 bits", "8 bits", "grey", "LAS 1.4"]
)
def test_laser_scans(tmp_path, name, point_format, factor):
    rng = np.random.default_rng(0)
    positions, colors = rng.uniform(-5, 900, (50, 3)), rng.integers(0, 256, (50, 3), dtype=np.uint16)
    version = "1.4" if point_format > 5 else "1.2"
    classes = np.array([7, 18, *[1, 2] * 24], np.uint8)  # low and high noise, and others
    write_las(tmp_path / name, positions, None if factor is None else factor * colors, point_format, version, classes)
    assert is_point_cloud(tmp_path / name)
    found = read_point_cloud(tmp_path / name)
    np.testing.assert_allclose(found.positions, positions[2:], atol=1e-4)
    np.testing.assert_array_equal(found.colors, 128 if factor is None else colors[2:])
    assert kept_points(found, SceneOptions())[2] == {"noise": 2}


def test_laser_scans_of_noise_alone(tmp_path):
    write_las(tmp_path / "a.las", np.ones((9, 3)), classes=np.full(9, 7, np.uint8))
    with pytest.raises(FormatError, match=r"a\.las: all 9 points are classified as noise: correct their classes"):
        read_point_cloud(tmp_path / "a.las")


def test_damaged_laser_scans(tmp_path):
    write_las(tmp_path / "a.las", np.ones((9, 3)))
    whole = (tmp_path / "a.las").read_bytes()
    (tmp_path / "a.las").write_bytes(whole[:-30])
    with pytest.raises(FormatError, match="9 points of 26 bytes are more than it can hold"):
        read_point_cloud(tmp_path / "a.las")
    (tmp_path / "a.las").write_bytes(whole[:100] + b"\xff" * 4 + whole[104:])
    with pytest.raises(FormatError, match="it lists more records than it can hold"):
        read_point_cloud(tmp_path / "a.las")
    (tmp_path / "a.las").write_bytes(b"LASF" + bytes(500))
    with pytest.raises(FormatError, match="is not a readable LAS file"):
        read_point_cloud(tmp_path / "a.las")


def test_laser_scan_on_which_the_decoder_aborts(tmp_path):
    """lazrs allocates as much memory as the table of chunks states, and aborts its process if that fails."""
    path = tmp_path / "a.laz"
    write_las(path, np.random.default_rng(0).normal(size=(50, 3)))
    content = bytearray(path.read_bytes())
    begin = int.from_bytes(content[96:100], "little")  # point data; its first 8 bytes locate the table
    table = int.from_bytes(content[begin : begin + 8], "little")
    content[table + 4 : table + 8] = b"\xff" * 4  # number of chunks
    path.write_bytes(content)
    with pytest.raises(FormatError, match="is not a readable LAS file"):
        read_point_cloud(path)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_laser_scan_on_a_machine_of_many_cores(tmp_path):
    """NumPy's OpenBLAS takes 40 MiB per core before the memory limit is set. This limit was once 1 GiB in total."""
    write_las(tmp_path / "a.las", np.random.default_rng(0).normal(size=(100_000, 3)))
    program = "import mmap; held = mmap.mmap(-1, 3 << 29, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); "
    program += "from splat_cli.scene.points.las_worker import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a.las")],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b'{"points": 100000, "noise": 0}\n'


@pytest.mark.parametrize("suffix", ["ply", "las"])
def test_points_of_a_file_start_any_scene(tmp_path, suffix):
    """--init-from replaces the dataset's points; a line warns if they are out of view."""
    scene, stream = write_small_scene(tmp_path / "scene"), io.StringIO()
    for name, scale, shift in (("here", 0.3, 0.0), ("far", 300.0, 5000.0)):
        positions, path = np.random.default_rng(0).normal(size=(200, 3)) * scale + shift, tmp_path / f"{name}.{suffix}"
        if suffix == "las":
            write_las(path, positions)
        else:
            write_point_cloud(path, positions)
        config = with_initial_points(load_config(None, {"init_from": str(path)}))
        assert (config.points, config.init, config.init_from) == (str(path), "points", None)
        data = read_data(scene, config, open_backend("cpu"), Display(stream))
        np.testing.assert_allclose(data.scene.points, positions, rtol=1e-5, atol=1e-3)
        assert ("0.0% of the 200 points are in view of a camera" in stream.getvalue()) == (name == "far")
    assert "units, the cameras over" in stream.getvalue()


def test_points_of_bundler_and_meshlab(tmp_path):
    """Diffuse colours, and an element without rows but with a list property, before or after the points."""
    properties = [f"property float {axis}" for axis in "xyz"]
    properties += [f"property uchar diffuse_{color}" for color in ("red", "green", "blue")]
    faces, vertices = ["element face 0", "property list uchar int vertex_indices"], ["element vertex 1", *properties]
    for elements in (faces + vertices, vertices + faces):
        lines = ["ply", "format ascii 1.0", *elements, "end_header", "1 2 3 10 20 30", ""]
        (tmp_path / "a.ply").write_text("\n".join(lines))
        points = read_point_cloud(tmp_path / "a.ply")
        assert points.positions.tolist() == [[1, 2, 3]]
        assert points.colors.tolist() == [[10, 20, 30]]


def test_points_out_of_view_are_warned_of(splat, tmp_path):
    """For example a transforms.json whose points have other axes than its cameras; few points in view are accepted."""
    scene = write_small_scene(tmp_path / "scene")
    model = read_model(scene / "sparse/0")
    options = ("--device", "cpu", "--steps", "2", "--init", "points", "--no-report")
    for number, num_seen in enumerate((1, 0)):
        model.points[num_seen:] = model.points[num_seen:] + [0, 900, 0]
        write_model(scene / "sparse/0", model)
        result = splat("train", scene, "-o", tmp_path / f"{number}", *options)
        assert result.code == 0
        said = "Warning: the dataset: 0.0% of the 300 points are in view of a camera"
        assert (said in result.err) == (num_seen == 0)


def test_splats_are_not_read_as_points(splat, tmp_path):
    """They would be grey: their colours are not those of a point cloud."""
    write_ply(tmp_path / "splats.ply", some_splats(20))
    scene = write_small_scene(tmp_path / "scene")
    result = splat("train", scene, "-o", tmp_path / "run", "--points", tmp_path / "splats.ply", "--steps", "1")
    assert (result.code, "holds splats, not points: start from them with --init-from" in result.err) == (2, True)


def test_filters_of_points_that_do_nothing_are_named(tmp_path):
    scene = write_small_scene(tmp_path / "scene")  # its points have no tracks and no errors
    assert "did nothing" not in read_scene(scene, SceneOptions(max_size=20)).found
    found = read_scene(scene, SceneOptions(min_track_length=3, max_point_error=1.0)).found
    assert "(--min-track-length and --max-point-error did nothing: the points do not state it)" in found
    model = read_model(scene / "sparse/0")
    (scene / "sparse/0/points3D.bin").unlink()
    lines = [f"{n} {x} {y} {z} 1 2 3 0.5 1 1 2 1" for n, (x, y, z) in enumerate(model.points)]
    for stem in ("cameras", "images"):
        (scene / f"sparse/0/{stem}.bin").unlink()
    write_model(scene / "sparse/0", model, binary=False)
    (scene / "sparse/0/points3D.txt").write_text("\n".join(lines))
    assert "did nothing" not in read_scene(scene, SceneOptions(min_track_length=2, max_point_error=1.0)).found


@pytest.mark.parametrize("option", ["--init-from", "--frozen"])
def test_splats_out_of_view_are_warned_of(splat, tmp_path, option):
    scene, splats = write_small_scene(tmp_path / "scene"), some_splats(50)
    for shift in (0, 900):
        splats.means += np.float32([0, shift, 0])
        write_ply(tmp_path / "splats.ply", splats)
        options = (option, tmp_path / "splats.ply", "--device", "cpu", "--steps", "1", "--no-report")
        result = splat("train", scene, "-o", tmp_path / str(shift), *options)
        assert result.code == 0
        assert ("splats.ply: 0.0% of the 50 splats are in view of a camera" in result.err) == (shift > 0)

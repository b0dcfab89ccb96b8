"""Scenes in geographic coordinates are moved to the origin, with all other data in the same coordinates."""

import dataclasses
import json
import shutil

import numpy as np
import plyfile
import pytest
from PIL import Image

import splat_cli as splat_api
from splat_cli.commands.render import plan_job
from splat_cli.errors import FormatError
from splat_cli.gaussians.editing.edits import merged
from splat_cli.gaussians.editing.move import with_origin
from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.gaussians.ply import read_ply, stated_origin, write_ply
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene import SceneOptions, read_scene
from splat_cli.scene.cameras_json import read_cameras, write_cameras
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.crop import parse_crop
from splat_cli.scene.poses import Similarity
from splat_cli.scene.trajectories.camera_path import CameraPath
from tests.gaussians.some_splats import some_splats
from tests.small_scene import write_small_scene

UTM = np.array([437_200.0, 5_421_300.0, 110.0])
OPTIONS = ("--device", "cpu", "--no-report", "--init", "points", "--save-at", "", "--deterministic")


def move(scene, offset):
    """Moves a scene's COLMAP model."""
    model = read_model(scene / "sparse/0")
    for image in model.images:
        object.__setattr__(image, "translation", tuple(image.translation - image.w2c()[:3, :3] @ offset))
    model.points = model.points + offset
    write_model(scene / "sparse/0", model)
    return scene


@pytest.fixture
def here(tmp_path):
    return write_small_scene(tmp_path / "here")


@pytest.fixture
def there(tmp_path):
    return move(write_small_scene(tmp_path / "there"), UTM)


def test_a_scene_is_moved_by_whole_units(here, there):
    near, far = read_scene(here), read_scene(there)
    moved = far.origin - UTM
    assert np.abs(moved).max() < 5
    np.testing.assert_array_equal(far.origin, np.rint(far.origin))
    np.testing.assert_allclose(far.points, near.points - moved, atol=1e-6)
    for view, other in zip(near.views, far.views, strict=True):
        np.testing.assert_allclose(other.center, view.center - moved, atol=1e-6)
    assert "moved by -437" in far.found
    assert not near.origin.any()


@pytest.mark.parametrize("offset", [0.0, UTM])
def test_points_of_a_file_may_be_geographic_or_relative(there, tmp_path, offset):
    rng = np.random.default_rng(0)
    positions = rng.normal(size=(50, 3))
    rows = np.array([tuple(row) for row in positions + offset], [(axis, "<f8") for axis in "xyz"])
    plyfile.PlyData([plyfile.PlyElement.describe(rows, "vertex")]).write(str(tmp_path / "points.ply"))
    scene = read_scene(there, SceneOptions(points=str(tmp_path / "points.ply")))
    shift = scene.origin - UTM if np.any(offset) else 0
    np.testing.assert_allclose(scene.points, positions - shift, atol=1e-6)


def test_cameras_in_one_place_are_not_moved(tmp_path):
    scene = write_small_scene(tmp_path / "scene", num_views=1)
    assert not read_scene(scene).origin.any()
    assert read_scene(move(scene, UTM)).origin.any()


def test_a_run_keeps_the_origin(splat, there, tmp_path):
    run = RunDir(tmp_path / "run")
    trained = splat("train", there, "-o", run.path, "--steps", "4", *OPTIONS)
    assert trained.code == 0
    assert "to the origin" in trained.err
    assert "float" not in trained.err
    origin = read_scene(there).origin
    np.testing.assert_array_equal(run.origin(), origin)
    assert splat("train", "--resume", run.path, "--steps", "6", "--device", "cpu").code == 0
    np.testing.assert_array_equal(run.origin(), origin)
    for view, other in zip(run.views("all"), read_scene(there).views, strict=True):
        np.testing.assert_allclose(view.center, other.center)
    moved = [Similarity(1.0, np.eye(3), origin).apply(view) for view in run.views("all")]
    write_cameras(tmp_path / "utm.json", moved)
    assert np.abs(read_cameras(tmp_path / "utm.json")[0].center).max() > 1e6
    for cameras, folder in ((run.cameras_path, "a"), (tmp_path / "utm.json", "b")):
        args = ("--cameras", cameras, "-o", tmp_path / folder, "--device", "cpu")
        assert splat("render", run.path, *args).code == 0
    for picture in sorted((tmp_path / "a").glob("*.png")):
        a, b = (np.asarray(Image.open(path), int) for path in (picture, tmp_path / "b" / picture.name))
        assert np.abs(a - b).max() <= 2
        assert a.std() > 5


def test_a_run_of_another_origin_is_not_continued(splat, there, tmp_path):
    assert splat("train", there, "-o", tmp_path / "run", "--steps", "4", *OPTIONS).code == 0
    move(there, -UTM)
    result = splat("train", "--resume", tmp_path / "run", "--steps", "6", "--device", "cpu")
    assert (result.code, "restore the scene, or start a new run" in result.err) == (2, True)


def test_splats_of_other_programs_are_evaluated_in_scene_coordinates(splat, there, tmp_path):
    assert splat("train", there, "-o", tmp_path / "run", "--steps", "4", *OPTIONS).code == 0
    splats = read_ply(RunDir(tmp_path / "run").ply_path(4))
    score = splat_api.evaluate(splats, there, device="cpu").mean.psnr
    splats.means += read_scene(there).origin.astype(np.float32)  # rounded to 0.5
    write_ply(tmp_path / "other.ply", splats)
    assert splat_api.evaluate(tmp_path / "other.ply", there, device="cpu").mean.psnr == pytest.approx(score, abs=3)
    assert json.loads((tmp_path / "run/result.json").read_text())["steps"] == 4


def world_splats(tmp_path, origin, suffix=".ply"):
    """A file of 200 large splats around the small scene, moved by `origin`; the file does not state an origin."""
    splats = some_splats(200)
    splats.means = (splats.means + origin).astype(np.float32)
    write_splats(tmp_path / f"world{suffix}", splats)
    return tmp_path / f"world{suffix}"


@pytest.mark.parametrize("option", ["--init-from", "--frozen"])
def test_splats_in_the_coordinates_of_the_scene_are_moved_with_it(splat, there, tmp_path, option):
    origin = read_scene(there).origin
    file = world_splats(tmp_path, origin)
    assert splat("train", there, "-o", tmp_path / "run", option, file, "--steps", "1", *OPTIONS).code == 0
    found = read_ply(RunDir(tmp_path / "run").ply_path(1))
    expected = read_ply(file).means - origin
    np.testing.assert_allclose(np.median(found.means[:200], axis=0), np.median(expected, axis=0), atol=0.5)


def test_a_ply_states_the_origin_that_was_subtracted(splat, there, tmp_path):
    assert splat("train", there, "-o", tmp_path / "run", "--steps", "1", *OPTIONS).code == 0
    origin = tuple(read_scene(there).origin)
    saved = read_ply(RunDir(tmp_path / "run").ply_path(1))
    assert saved.origin == origin
    for name in ("out.ply", "out.compressed.ply"):
        assert splat("export", tmp_path / "run", tmp_path / name).code == 0
        assert read_splats(tmp_path / name).origin == origin
        assert f"{origin[0]:.0f}, {origin[1]:.0f}" in splat("info", tmp_path / name).out
    assert splat_api.open_run(tmp_path / "run", device="cpu").splats.origin == origin
    # the positions are no longer relative to it
    translation = ",".join(map(str, origin))
    assert splat("export", tmp_path / "run", tmp_path / "utm.ply", "--translate", translation).code == 0
    moved = read_ply(tmp_path / "utm.ply")
    assert not any(moved.origin)
    np.testing.assert_allclose(moved.means, saved.means + origin, atol=0.5)


@pytest.mark.parametrize("name", ["out.ply", "out.spz", "out.glb", "out.sog", "out.html", "a/tileset.json"])
def test_an_export_names_the_origin_that_was_subtracted(splat, there, tmp_path, name):
    assert splat("train", there, "-o", tmp_path / "run", "--steps", "1", *OPTIONS).code == 0
    said = "coordinates are relative to " + ", ".join(f"{value:.0f}" for value in read_scene(there).origin)
    assert said + "\n" in splat("export", tmp_path / "run", tmp_path / name).out
    assert f"{said}, before scale" in splat("export", tmp_path / "run", tmp_path / name, "--scale", "2").out
    splat("export", tmp_path / "run", tmp_path / "utm.ply", "--translate", "1,2,3")
    assert "relative to" not in splat("export", tmp_path / "utm.ply", tmp_path / name).out


def test_levels_of_detail_name_the_origin_once(splat, there, tmp_path):
    assert splat("train", there, "-o", tmp_path / "run", "--steps", "1", *OPTIONS).code == 0
    written = splat("export", tmp_path / "run", tmp_path / "a.spz", "--lod", "3", "--lod-steps", "1")
    assert (written.code, written.out.count("coordinates are relative to")) == (0, 1)
    assert (tmp_path / "a_lod2.spz").is_file()


def test_splats_of_a_scene_with_another_origin_are_moved_by_the_difference(there):
    origin = np.rint(UTM)
    splats = dataclasses.replace(some_splats(50), origin=tuple(origin))
    moved = with_origin(splats, origin + (3, 0, -1))
    np.testing.assert_allclose(moved.means, splats.means - (3, 0, -1), atol=1e-6)
    assert with_origin(splats, np.zeros(3)).means is splats.means
    both = merged([dataclasses.replace(splats, origin=(0.0, 0.0, 0.0)), splats, moved])
    np.testing.assert_allclose(both.means, np.tile(splats.means, (3, 1)), atol=1e-6)
    assert both.origin == tuple(origin)


@pytest.mark.parametrize(
    "comment", ["subtracted_origin: 1 2", "subtracted_origin: 1 2 nan", "subtracted_origin: a b c"]
)
def test_damaged_origin_comment_is_ignored(comment):
    assert stated_origin([comment]) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("in_world", [True, False])
def test_crop_may_be_geographic_or_relative(splat, there, tmp_path, in_world):
    scene = read_scene(there)
    shift = scene.origin if in_world else np.zeros(3)
    middle = np.median(scene.points, axis=0)
    corners = ",".join(map(str, [*(middle - 0.5 + shift), *(middle + 0.5 + shift)]))
    inside = (np.abs(scene.points - middle) <= 0.5).all(axis=1).sum()
    assert 0 < inside < len(scene.points)
    cropped = read_scene(there, SceneOptions(crop=parse_crop(corners)))
    assert abs(len(cropped.points) - inside) <= 1
    trained = splat("train", there, "-o", tmp_path / "run", "--steps", "1", "--crop", corners, *OPTIONS)
    assert trained.code == 0
    for args in ((), ("--crop", corners)):
        assert splat("export", tmp_path / "run", tmp_path / "out.ply", *args).code == 0
        assert np.abs(read_ply(tmp_path / "out.ply").means - middle).max() < 0.51
    sphere = ",".join(map(str, [*(middle + shift), 0.4]))
    assert splat("export", tmp_path / "out.ply", tmp_path / "less.ply", "--crop", sphere).code == 0
    assert np.linalg.norm(read_ply(tmp_path / "less.ply").means - middle, axis=1).max() < 0.41


def test_the_focus_of_a_path_may_have_the_coordinates_of_the_scene(splat, there, tmp_path):
    assert splat("train", there, "-o", tmp_path / "run", "--steps", "4", *OPTIONS).code == 0
    scene = read_scene(there)
    middle = np.median(scene.points, axis=0)
    jobs = []
    for shift in (0, scene.origin):
        path = CameraPath("orbit", frames=4, focus=tuple(middle + shift))
        jobs.append(plan_job(tmp_path / "run", path=path).views)
    write_cameras(tmp_path / "utm.json", [Similarity(1.0, np.eye(3), scene.origin).apply(view) for view in jobs[0]])
    jobs.append(plan_job(tmp_path / "run", path=CameraPath(str(tmp_path / "utm.json"))).views)
    assert splat("export", tmp_path / "run", tmp_path / "out.ply").code == 0
    jobs.append(plan_job(tmp_path / "out.ply", cameras=tmp_path / "utm.json").views)
    for views in jobs[1:]:
        for view, other in zip(jobs[0], views, strict=True):
            np.testing.assert_allclose(view.w2c, other.w2c, atol=1e-6)


def test_cameras_state_the_origin_that_was_subtracted(splat, there, tmp_path):
    """Cameras of a run were taken as relative to the origin of the splats that they show, which may be another."""
    offset = np.array([40.0, 70.0, 3.0])
    other = move(write_small_scene(tmp_path / "other"), UTM + offset)
    runs = [tmp_path / "a", tmp_path / "b"]
    for run, scene in zip(runs, (there, other), strict=True):
        assert splat("train", scene, "-o", run, "--steps", "2", *OPTIONS, "--allow-implausible").code == 0
    origins = [RunDir(run).origin() for run in runs]
    np.testing.assert_array_equal(origins[1] - origins[0], offset)
    assert splat("export", runs[0], tmp_path / "a.ply", "--cameras", tmp_path / "a.json").code == 0
    truth = np.array([view.center for view in RunDir(runs[0]).views("all")]) + origins[0]
    for cameras in (runs[0] / "cameras.json", tmp_path / "a.json"):
        for source, origin in ((runs[0], origins[0]), (tmp_path / "a.ply", origins[0]), (runs[1], origins[1])):
            for job in (plan_job(source, cameras=cameras), plan_job(source, path=CameraPath(str(cameras)))):
                np.testing.assert_allclose([view.center for view in job.views] + origin, truth, atol=1e-6)
    both = (shutil.copy(runs[1] / "point_cloud/iteration_2/point_cloud.ply", tmp_path / "b.ply"), runs[0])
    out = (tmp_path / "both.ply", "--cameras", tmp_path / "both.json")
    assert splat("export", *both, *out).code == 0
    centers = [view.center for view in read_cameras(tmp_path / "both.json")]
    np.testing.assert_allclose(centers + np.array(read_ply(tmp_path / "both.ply").origin), truth, atol=1e-6)
    assert splat("export", runs[0], tmp_path / "a.ply", "--cameras", tmp_path / "a.json", "--scale", "2").code == 0
    assert "origin" not in json.loads((tmp_path / "a.json").read_text())[0]


def test_cameras_with_a_wrong_origin_are_refused(here, tmp_path):
    path = tmp_path / "cameras.json"
    write_cameras(path, read_scene(here).views, UTM)
    path.write_text(path.read_text().replace(str(UTM[0]), '"far"'))
    with pytest.raises(FormatError, match="camera 0: its 'origin' is not a list of 3 finite numbers"):
        read_cameras(path, UTM)


def add_photographs(scene, num, offset):
    """Photographs of cameras `offset` away, which change the median of all cameras and so the origin."""
    model = read_model(scene / "sparse/0")
    for number in range(num):
        first = model.images[number % 9]
        name = f"late_{number:02}.jpg"
        shutil.copyfile(scene / "images" / first.name, scene / "images" / name)
        moved = tuple(first.translation - first.w2c()[:3, :3] @ offset)
        model.images.append(dataclasses.replace(first, id=100 + number, name=name, translation=moved))
    write_model(scene / "sparse/0", model)


@pytest.mark.parametrize("named", ["later", "moved to the origin"])
def test_scene_of_a_run_is_read_relative_to_the_origin_of_the_run(splat, there, tmp_path, named):
    """`splat eval` compares free space with the points; the cameras are those of the run."""
    run = tmp_path / "run"
    # a crop in the coordinates of the run, which contains all but a few points
    crop = ("--crop-start", "--crop", "-0.9,-9,-9,9,9,9", "--eval")
    assert splat("train", there, "-o", run, "--steps", "4", *crop, *OPTIONS).code == 0
    before = json.loads(splat("eval", run, "--json", "--device", "cpu").out)
    assert before["hidden_points"] is not None
    origin = RunDir(run).origin()
    scene = shutil.copytree(there, tmp_path / "again")
    if named == "later":
        add_photographs(scene, 12, np.array([40.0, 30.0, 5.0]))
        assert np.abs(read_scene(scene).origin - origin).max() > 10
    else:
        move(scene, -origin)
        assert not read_scene(scene).origin.any()
    after = json.loads(splat("eval", run, "--scene", scene, "--json", "--device", "cpu").out)
    for name in ("hidden_points", "opacity_before_points", "hidden_points_train", "opacity_before_points_train"):
        assert after[name] == pytest.approx(before[name], abs=1e-6), name
    assert after["psnr"] == pytest.approx(before["psnr"], abs=1e-6)

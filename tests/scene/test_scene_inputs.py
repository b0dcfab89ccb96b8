"""Paths of scenes: the model's folder, a dataset's file, a zip file; points from a PLY."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.errors import SceneError
from splat_cli.run.setup.training_data import with_initial_points
from splat_cli.scene import SceneOptions, read_scene
from splat_cli.scene.formats import scene_folder
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.points.point_cloud import is_point_cloud
from splat_cli.scene.zipped import is_zipped_scene, unzip_scene
from tests.gaussians.some_splats import some_splats
from tests.scene.transforms_files import frame_entry, write_point_cloud, write_transforms
from tests.views import ring_of_views

OPTIONS = ("--device", "cpu", "--steps", "2", "--no-report")


def zipped(folder, path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent))
    return path


@pytest.mark.parametrize("tail", ["sparse", "sparse/0", "sparse/0/cameras.bin"])
def test_folder_of_a_model_is_read_as_its_scene(scene, tail, monkeypatch):
    assert scene_folder(scene / tail) == (scene, "auto")
    assert len(read_scene(scene / tail).views) == 9
    monkeypatch.chdir(scene)
    assert scene_folder(scene / tail)[0].samefile(scene)
    assert len(read_scene(tail).views) == 9


@pytest.mark.parametrize("model", ["sparse/1", "colmap/sparse/0"])
def test_another_model_of_a_scene_has_its_masks_and_depth_maps(scene, tmp_path, model):
    """It is the one that is read, though sparse/0 comes first for the scene's own folder."""
    folder = shutil.copytree(scene, tmp_path / "scene")
    shutil.copytree(folder / "sparse" / "0", folder / model)
    for name in ("masks", "depths"):
        (folder / name).mkdir()
        (folder / name / "a_03.jpg.png").touch()
    for path in (folder / model, folder / model / "images.bin"):
        found = read_scene(path)
        assert f"model in {folder / model}" in found.found
        assert [view.name for view in found.views if view.mask and view.depth] == ["a_03.jpg"]
    (folder / model / "images.txt").touch()
    with pytest.raises(SceneError, match=r"images\.bin is read before images\.txt: move one"):
        read_scene(folder / model / "images.txt")


def test_file_of_a_dataset_chooses_the_format(scene, tmp_path, splat):
    folder = shutil.copytree(scene, tmp_path / "garden")
    views = ring_of_views(3)
    write_transforms(tmp_path / "other", views)
    shutil.copy(tmp_path / "other/transforms.json", folder)
    assert "COLMAP" in read_scene(folder).found
    assert "transforms.json" in read_scene(folder / "transforms.json").found
    result = splat("train", folder / "transforms.json", *OPTIONS)
    assert (result.code, "Run: runs/garden\n" in result.out) == (0, True), result.err
    assert 'format = "transforms"' in (tmp_path / "cwd/runs/garden/config.toml").read_text()


def test_file_outside_of_any_dataset_is_refused(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(
        SceneError, match=r"notes\.md is not a scene: give a folder of photographs, a video, a zip file, or a scene"
    ):
        read_scene(tmp_path / "notes.md")


def test_a_zipped_scene_is_unpacked_and_trained(scene, tmp_path, splat):
    archive = zipped(scene, tmp_path / "garden.zip")
    assert is_zipped_scene(archive)
    first = splat("train", archive, *OPTIONS)
    assert (first.code, "Unpacking" in first.err) == (0, True), first.err
    assert "Run: runs/garden\n" in first.out
    assert (tmp_path / "cwd/scenes/garden/sparse/0/cameras.bin").is_file()
    second = splat("train", archive, *OPTIONS)
    assert "unpacked before" in second.err
    assert "9 " in splat("info", archive).out


@pytest.mark.parametrize(
    ("head", "separator", "more"),
    [
        ("garden/", "/", ["__MACOSX/garden/._a_00.jpg", ".DS_Store", "garden/.DS_Store"]),  # made by the Finder
        ("garden\\", "\\", ["garden\\empty\\"]),  # made by older Windows programs
        ("a/b c/ü/", "/", []),
        ("", "/", ["Thumbs.db"]),
    ],
)
def test_zips_of_other_programs_hold_the_scene_somewhere_inside(scene, tmp_path, splat, head, separator, more):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in filter(Path.is_file, scene.rglob("*")):
            member = zipfile.ZipInfo("x")
            member.filename = head + file.relative_to(scene).as_posix().replace("/", separator)
            archive.writestr(member, file.read_bytes())
        for name in more:
            archive.writestr(name, b"")
    unzip_scene(tmp_path / "a.zip", tmp_path / "scene")
    assert len(read_scene(tmp_path / "scene").views) == 9
    result = splat("train", tmp_path / "a.zip", *OPTIONS)
    assert (result.code, "9 photographs" in result.err) == (0, True), result.err


def test_a_zip_of_two_scenes_names_them(scene, tmp_path, splat):
    for name in ("north", "south"):
        shutil.copytree(scene, tmp_path / "both" / name)
    result = splat("train", zipped(tmp_path / "both", tmp_path / "both.zip"), *OPTIONS)
    assert (result.code, "is not a scene, but holds 2: give" in result.err) == (2, True), result.err


def test_zip_of_a_model_alone_is_a_part_of_its_scene(scene, tmp_path):
    folder = shutil.copytree(scene, tmp_path / "garden")
    archive = zipped(folder / "sparse", folder / "model.zip")
    shutil.rmtree(folder / "sparse")
    assert not is_zipped_scene(archive)
    assert scene_folder(archive)[0] == folder
    assert len(read_scene(archive).views) == 9


@pytest.mark.parametrize("name", ["../a.jpg", "/a.jpg", "b/../../a.jpg", "..\\a.jpg", "C:\\a.jpg", "\\a.jpg"])
def test_a_zip_that_leads_out_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(SceneError, match="leads out of it"):
        unzip_scene(tmp_path / "a.zip", tmp_path / "out/scene")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_zip_that_grows_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.jpg", bytes(100 << 20))
    with pytest.raises(SceneError, match="would unpack to"):
        unzip_scene(tmp_path / "a.zip", tmp_path / "scene")


def test_points_from_a_file(scene, tmp_path, splat):
    positions = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    write_point_cloud(tmp_path / "points.ply", positions, np.full((50, 3), 7, np.uint8), text=True)
    read = read_scene(scene, SceneOptions(points=tmp_path / "points.ply"))
    np.testing.assert_allclose(read.points, positions, rtol=1e-6)
    assert (read.colors == 7).all()
    result = splat("train", scene, *OPTIONS, "--init-from", tmp_path / "points.ply", "-o", tmp_path / "run")
    assert (result.code, result.out.startswith("50 splats")) == (0, True), result.err
    assert splat("train", "--resume", tmp_path / "run", "--steps", "3").code == 0


def test_splats_are_refused_as_a_point_cloud(tmp_path, scene):
    from splat_cli.gaussians.formats import write_splats

    for name in ("splats.ply", "splats.compressed.ply"):
        write_splats(tmp_path / name, some_splats(20))
        assert not is_point_cloud(tmp_path / name)
        config = load_config(None, {"init_from": str(tmp_path / name)})
        assert with_initial_points(config) is config
    assert not is_point_cloud(tmp_path / "nothing.ply")


def test_thin_prism_fisheye_in_transforms(tmp_path):
    views = ring_of_views(2)
    values = {"k1": 0.1, "k2": 0.02, "p1": 0.003, "p2": 0.004, "k3": 0.005, "k4": 0.006, "sx1": 0.007, "sy1": 0.008}
    write_transforms(
        tmp_path, views, [frame_entry(view, camera_model="THIN_PRISM_FISHEYE", **values) for view in views]
    )
    distortion = read_scene(tmp_path).views[0].lens.distortion
    assert distortion == Polynomial(
        radial=(0.1, 0.02, 0.005, 0.006), tangential=(0.003, 0.004), prism=(0.007, 0.0, 0.008, 0.0), fisheye=True
    )
    document = json.loads((tmp_path / "transforms.json").read_text())
    document["frames"][0]["camera_model"] = "MAGIC"
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    assert "expected one of PINHOLE" in read_scene(tmp_path).skipped[0]


def test_message_names_the_subfolder_with_the_photographs(scene, tmp_path):
    moved = shutil.copytree(scene, tmp_path / "garden")
    (moved / "images").rename(tmp_path / "left")
    (moved / "images").mkdir()
    folder = (tmp_path / "left").rename(moved / "images" / "left")
    with pytest.raises(SceneError, match=f"a_00.jpg is in {folder}: give --images {folder}$"):
        read_scene(moved)
    assert read_scene(moved, SceneOptions(images=str(folder))).views


@pytest.mark.parametrize("inside", [".", "images", "left", "a/b/c"])
def test_message_for_photographs_without_poses(scene, tmp_path, inside):
    shutil.copytree(scene / "images", tmp_path / "garden" / inside)
    with pytest.raises(
        SceneError, match="garden holds photographs without camera poses: `splat train .*garden` estimates"
    ):
        read_scene(tmp_path / "garden")

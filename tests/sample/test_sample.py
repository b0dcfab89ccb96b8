"""The sample scene is always the same and readable, and its points are where its photographs show them."""

import errno
import os

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.errors import DiskError, SceneError, UnwritableError
from splat_cli.sample import make_sample_scene, photographs
from splat_cli.scene import load_images, read_scene
from splat_cli.scene.dataset import SceneOptions


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return make_sample_scene(tmp_path_factory.mktemp("sample"), num_views=6, width=64, height=48, seed=3)


def test_it_reads_as_a_scene(sample):
    scene = read_scene(sample)
    assert len(scene.views) == 6
    assert scene.skipped == []
    assert {(view.width, view.height) for view in scene.views} == {(64, 48)}
    assert 3000 < len(scene.points) < 10000


@pytest.mark.parametrize(("camera", "size"), [("fisheye", (48, 48)), ("sphere", (64, 32))])
def test_points_project_onto_their_colors_through_a_lens(tmp_path, camera, size):
    folder = make_sample_scene(tmp_path, num_views=4, width=size[0], height=size[1], camera=camera)
    scene = read_scene(folder, SceneOptions(lens="keep"))
    views, images, masks, *_ = load_images(scene.views)
    differences = np.full((len(views), len(scene.points)), 255.0)
    for row, view, image, mask in zip(differences, views, images, masks, strict=True):
        pixels, _, seen = view.project(scene.points)
        x, y = pixels[seen].astype(int).T
        row[seen] = np.abs(image[y, x].astype(float) - scene.colors[seen]).mean(axis=1)
        if camera == "fisheye":
            assert mask[0, 0] == 0
            assert mask[24, 1] == 255
            assert image[mask == 0].mean() < 10
        else:
            assert mask is None
    assert np.median(differences.min(axis=0)) < 12


def test_unknown_camera_is_refused(tmp_path):
    with pytest.raises(SceneError, match="no camera 'drone': give one of pinhole, fisheye, sphere"):
        make_sample_scene(tmp_path, camera="drone")


def test_points_project_onto_their_colors(sample):
    scene = read_scene(sample)
    views, images, *_ = load_images(scene.views)
    differences = np.full((len(views), len(scene.points)), 255.0)
    for row, view, image in zip(differences, views, images, strict=True):
        place = scene.points @ view.w2c[:3, :3].T + view.w2c[:3, 3]
        x, y = view.fx * place[:, 0] / place[:, 2] + view.cx, view.fy * place[:, 1] / place[:, 2] + view.cy
        seen = np.flatnonzero((place[:, 2] > 0) & (x >= 0) & (x < view.width) & (y >= 0) & (y < view.height))
        pixels = image[y[seen].astype(int), x[seen].astype(int)].astype(float)
        row[seen] = np.abs(pixels - scene.colors[seen]).mean(axis=1)
    assert np.median(differences.min(axis=0)) < 12


def test_cameras_stand_upright_in_a_world_with_y_down(sample):
    for view in read_scene(sample).views:
        assert view.w2c[1, :3] @ [0, 1, 0] > 0.8


def test_scene_depends_on_the_seed(sample, tmp_path):
    size = {"num_views": 6, "width": 64, "height": 48}
    again = make_sample_scene(tmp_path / "again", **size, seed=3)
    other = make_sample_scene(tmp_path / "other", **size, seed=4)
    files = [path.relative_to(sample) for path in sample.rglob("*") if path.is_file()]
    assert all((sample / file).read_bytes() == (again / file).read_bytes() for file in files)
    assert any((sample / file).read_bytes() != (other / file).read_bytes() for file in files)


def test_depths_are_those_of_the_points(tmp_path):
    """Points are off by 1 % along each axis: half of them have the depth of the maps to 1 %."""
    folder = make_sample_scene(tmp_path, num_views=2, width=64, height=48, depths=True)
    scene, differences = read_scene(folder), []
    for view in scene.views:
        with Picture.open(folder / "depths" / view.name.replace("jpg", "png")) as picture:
            depths = np.asarray(picture) / 1000
        pixels, z, inside = view.project(scene.points)
        column, row = pixels[inside].astype(int).T
        differences.append(np.abs(depths[row, column] / z[inside] - 1))
    assert np.median(np.concatenate(differences)) < 0.02


def test_no_place_to_write(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableError, match="cannot be written"):
        make_sample_scene(tmp_path / "file", num_views=1, width=8, height=6)


def test_full_disk_is_not_reported_as_a_wrong_path(tmp_path, monkeypatch):
    def write_model(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(photographs, "write_model", write_model)
    with pytest.raises(DiskError, match="no space left on the disk; free some there") as caught:
        make_sample_scene(tmp_path, num_views=1, width=8, height=6)
    assert caught.value.exit_code == 1


def test_scene_without_views_is_refused(tmp_path):
    with pytest.raises(SceneError, match="at least 1"):
        make_sample_scene(tmp_path, num_views=0)

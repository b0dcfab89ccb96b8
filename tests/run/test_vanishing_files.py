"""Photographs that vanish during training: the run ends with advice, or continues."""

import shutil

import pytest

from splat_cli.errors import SceneError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.scene import read_scene
from splat_cli.scene.images.image_set import lazy_images
from tests.ranks.runs import called_once
from tests.small_scene import write_small_scene

STREAMED = {"image_memory": 8 * 3 * 40 * 30 / 2**30, "score_views": 4}


@pytest.fixture
def folder(training, tmp_path):
    training.scene = write_small_scene(tmp_path / "scene")
    return training.scene


def hide(folder):
    return lambda: (folder / "images").rename(folder / "hidden")


def test_a_run_whose_photographs_are_all_gone_ends_and_is_resumed(training, folder, tmp_path):
    """If training continued, regularization would change the splats, and checkpoints would replace the good ones."""
    advice = f"none of the 9 photographs can be read .*; continue with: splat train --resume {tmp_path / 'run'}"
    with pytest.raises(SceneError, match=advice):
        training.new(tmp_path / "run", called_once(hide(folder), 16), steps=600, **STREAMED)
    assert checkpoint_paths(tmp_path / "run" / "checkpoints")
    (folder / "hidden").rename(folder / "images")
    run = training.resume(tmp_path / "run")
    assert run.result()["steps"] == 600


def test_a_run_continues_when_held_out_photographs_are_gone(training, folder, tmp_path):
    def remove():
        for name in ("a_00.jpg", "a_08.jpg"):
            (folder / "images" / name).unlink()

    settings = {**STREAMED, "eval": True, "save_at": (30, 60)}
    with pytest.raises(SceneError, match="none of the .*; continue with: splat train --resume"):
        training.new(tmp_path / "run", called_once(remove, 16), **settings)
    assert any("none of the" in line and "; training continues; splat" in line for line in training.display.warnings)
    assert (tmp_path / "run/point_cloud/iteration_60/point_cloud.ply").is_file()


def test_photographs_that_come_back_are_used_again(folder):
    images = lazy_images(read_scene(folder).views, lambda line: None).images
    (folder / "images").rename(folder / "hidden")
    for index in range(8):
        assert not images[index].any()
    (folder / "hidden").rename(folder / "images")
    assert images[0].any()
    (folder / "images").rename(folder / "hidden")
    assert not images[8].any()
    with pytest.raises(SceneError, match="none of the 9 photographs can be read"):
        images[0]


def test_photographs_that_are_replaced_do_not_count_until_they_are_restored(folder):
    """Training would mix the pixels of both; the run could no longer be resumed."""
    said = []
    images, masks = lazy_images(read_scene(folder).views, said.append)[1:3]
    before = images[2].copy()
    photograph, kept = folder / "images" / "a_02.jpg", folder / "kept.jpg"
    photograph.rename(kept)
    shutil.copy(folder / "images" / "a_03.jpg", photograph)
    assert not images[2].any()
    assert not masks[2].any()
    assert said == ["a_02.jpg: it was replaced while it was in use; restore it"]
    kept.replace(photograph)
    assert (images[2] == before).all()
    assert masks[2] is None

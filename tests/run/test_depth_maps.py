"""Runs with depth maps: resumption, reduced resolution, streaming, memory, several GPUs."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.plan import DEPTH_WEIGHT, resolve_plan
from splat_cli.run.setup.memory_plan import plan_memory
from splat_cli.run.setup.training_data import read_data
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display
from tests.small_scene import write_small_scene
from tests.training import Trained


@pytest.fixture(scope="module")
def scene_with_maps(tmp_path_factory):
    """Slanted planes at the distance of the scene's middle, of half the photographs' size, in 16-bit PNG."""
    scene = write_small_scene(tmp_path_factory.mktemp("scenes") / "maps")
    levels = np.linspace(2500, 3500, 15 * 20).reshape(15, 20).astype(np.uint16)
    (scene / "depths").mkdir()
    for path in (scene / "images").iterdir():
        Image.fromarray(levels).save(scene / "depths" / f"{path.stem}.png")
    return scene


def data_of(scene, **settings):
    config = load_config(None, {"steps": 10, **settings})
    return read_data(scene, config, open_backend("cpu"), Display()), config


def test_resumed_run_ends_with_the_same_bits(scene_with_maps, tmp_path):
    settings = {"depth_maps": "relative", "coarse_until": 0.5, "init": "points", "depth_weight": 0.5}
    whole = Trained(scene_with_maps).new(tmp_path / "whole", **settings)
    without = Trained(scene_with_maps).new(tmp_path / "without", **settings, depths="none")
    assert whole.ply_path(60).read_bytes() != without.ply_path(60).read_bytes()
    run = RunDir(shutil.copytree(whole.path, tmp_path / "run"))
    run.result_path.unlink()
    checkpoint_paths(run.checkpoints_path)[0].unlink()
    training = Trained(scene_with_maps)
    training.resume(run.path)
    assert any(line.startswith("Depth maps: 9, ") and "up to scale and shift" in line for line in training.said)
    assert run.ply_path(60).read_bytes() == whole.ply_path(60).read_bytes()
    with pytest.raises(UsageError, match="--depths cannot change"):
        training.resume(run.path, steps=70, depths="none")


def test_default_weight_follows_the_maps(scene_with_maps):
    for settings, expected in (
        ({"depth_maps": "metric"}, DEPTH_WEIGHT),
        ({"depths": "none"}, 0),
        ({"depth_weight": 0}, 0),
    ):
        data, config = data_of(scene_with_maps, **settings)
        assert resolve_plan(config, data.training.views).config.depth_weight == expected
        assert (data.training.depth_maps is not None) == (expected > 0)


def test_maps_that_disagree_with_the_points_give_no_loss(scene_with_maps, tmp_path):
    """The points have no weight either: they were not requested."""
    scene = shutil.copytree(scene_with_maps, tmp_path / "scene")
    for path in (scene / "depths").iterdir():
        noise = np.random.default_rng(len(path.name)).integers(1, 60_000, (15, 20))
        Image.fromarray(noise.astype(np.uint16)).save(path)
    data, config = data_of(scene)
    assert data.training.depth_maps is None
    assert resolve_plan(config, data.training.views).config.depth_weight == 0


def test_memory_counts_maps(scene_with_maps):
    data, config = data_of(scene_with_maps, depth_maps="metric")
    assert data.training.depth_maps.num_bytes == 9 * 2 * 15 * 20
    plan, backend = resolve_plan(config, data.training.views), open_backend("cpu")
    sizes = [
        plan_memory(backend, plan.config, data.training.views, 10, None, 0, extra).photographs for extra in (0, 5400)
    ]
    assert sizes[1] - sizes[0] == 5400


def test_streamed_runs_keep_smaller_maps(scene_with_maps, tmp_path):
    training = Trained(scene_with_maps)
    settings = {"image_memory": 25_000 / 2**30, "score_views": 2, "depth_maps": "metric", "init": "points"}
    run = training.new(tmp_path / "run", steps=20, **settings)
    assert "Depth maps: 9, depths in world units" in "\n".join(training.said)
    assert "1/3 of the photographs' size to fit into --image-memory" in "\n".join(training.said)
    assert json.loads(run.result_path.read_text())["steps"] == 20


def test_several_gpus_are_refused(scene_with_maps, tmp_path):
    with pytest.raises(UsageError, match="--gpus 2 does not work with depth maps: give --depths none"):
        data_of(scene_with_maps, gpus=2)
    data_of(scene_with_maps, gpus=2, depths="none")


def test_a_scene_without_points_or_maps_has_no_depths(tmp_path):
    scene = write_small_scene(tmp_path / "scene", num_points=0)
    with pytest.raises(SceneError, match="no depth maps or points to compare depths with"):
        data_of(scene, depth_weight=0.5)

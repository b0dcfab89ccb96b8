"""Joint models in a run: resuming, and files with their results."""

import json
import shutil

import numpy as np
import pytest

from splat_cli.commands.evaluate import evaluate_run
from splat_cli.device import open_backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint
from splat_cli.run.setup import initial_state
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_cameras
from splat_cli.terminal.console import Display
from tests.small_scene import write_small_scene
from tests.training import Trained

AUXILIARY = {
    "pose_opt": True,
    "pose_travel": 0.1,
    "appearance": "exposure",
    "smooth_3d": 0.2,
    "background": "learned",
    "depth_weight": 0.1,
}
AUXILIARY_ARRAYS = ("poses", "exposures", "background")


def test_eval_measures_with_and_without_exposure(whole):
    at_end = json.loads(whole.metrics_path.read_text())["steps"]["60"]
    assert at_end["fitted_psnr"] != at_end["psnr"]
    assert {"psnr", "ssim", "fitted_psnr", "fitted_ssim"} <= at_end["per_image"]["a_00.jpg"].keys()


@pytest.fixture(scope="module")
def whole(scene, tmp_path_factory):
    """A run with all joint models. Do not modify."""
    return Trained(scene).new(tmp_path_factory.mktemp("auxiliary") / "whole", eval=True, **AUXILIARY)


def test_resumed_run_ends_with_the_same_bits(training, whole, tmp_path):
    run = training.resume_before_end(whole, tmp_path / "run")
    assert any(line.startswith("Continuing from step ") for line in training.said)
    assert run.ply_path(60).read_bytes() == whole.ply_path(60).read_bytes()
    assert run.cameras_path.read_bytes() == whole.cameras_path.read_bytes()


def test_grid_and_robust_loss_resume_with_the_same_bits(scene, training, tmp_path):
    whole = Trained(scene).new(tmp_path / "whole", eval=True, appearance="grid", robust=True)
    run = training.resume_before_end(whole, tmp_path / "run")
    assert run.ply_path(60).read_bytes() == whole.ply_path(60).read_bytes()
    arrays = read_checkpoint(checkpoint_paths(run.checkpoints_path)[0]).arrays
    assert arrays["outlier_threshold"][0] > 0
    grids = arrays["grids"]
    assert grids.shape == (7, 3, 8, 16, 16, 12)
    assert np.abs(grids[:, 0]).max(axis=(1, 2, 3, 4)).min() > 0


def test_responses_and_intrinsics_resume_with_the_same_bits(scene, training, tmp_path):
    settings = {"appearance": "camera", "pose_opt": True, "refine_intrinsics": True}
    whole = Trained(scene).new(tmp_path / "whole", eval=True, **settings)
    run = training.resume_before_end(whole, tmp_path / "run")
    assert run.ply_path(60).read_bytes() == whole.ply_path(60).read_bytes()
    assert run.responses_path.read_bytes() == whole.responses_path.read_bytes()
    assert run.cameras_path.read_bytes() == whole.cameras_path.read_bytes()
    assert run.responses().keys() == {1}
    assert {view.fx for view in run.views("all")} != {35.0}
    assert len({round(view.fx, 9) for view in run.views("all")}) == 1
    before = run.metrics()["steps"]["60"]["per_image"]
    after = evaluate_run(run.path, None, open_backend("cpu"), Display()).scores
    for name, score in after.items():
        assert score.psnr == pytest.approx(before[name]["psnr"], abs=0.01)
        assert score.fitted_psnr == pytest.approx(before[name]["fitted_psnr"], abs=0.01)


def test_saved_splats_and_cameras_give_the_measured_scores(whole, tmp_path):
    """Saved splats rendered from saved cameras have the final scores of training."""
    run = RunDir(shutil.copytree(whole.path, tmp_path / "run"))
    before = run.metrics()["steps"]["60"]["per_image"]
    after = evaluate_run(run.path, None, open_backend("cpu"), Display()).scores
    for name, score in after.items():
        assert score.psnr == pytest.approx(before[name]["psnr"], abs=0.01)
        assert score.fitted_psnr == pytest.approx(before[name]["fitted_psnr"], abs=0.01)


def test_checkpoint_holds_joint_models(whole):
    checkpoint = read_checkpoint(checkpoint_paths(whole.checkpoints_path)[0])
    assert checkpoint.arrays["poses"].shape == (7, 3, 6)
    assert checkpoint.arrays["exposures"].shape == (7, 3, 12)
    assert (checkpoint.arrays["filters"] > 0).any()
    assert checkpoint.arrays["background"].shape == (1, 3, 3)
    for name in AUXILIARY_ARRAYS:
        assert np.abs(checkpoint.arrays[name][:, 0]).min() > 0


def test_joint_models_cannot_be_enabled_by_a_resume(training, finished):
    later = {name: value for name, value in AUXILIARY.items() if name != "depth_weight"}
    with pytest.raises(UsageError, match="--pose-opt, --appearance, --smooth-3d, --background cannot change"):
        training.resume(finished.path, steps=70, **later)


def test_run_saves_refined_cameras(whole, finished):
    """Each training camera has moved differently; held-out cameras have followed."""
    given, refined = read_cameras(finished.cameras_path), read_cameras(whole.cameras_path)
    shifts = [np.linalg.norm(a.center - b.center) for a, b in zip(given, refined, strict=True)]
    assert min(shifts) > 0
    assert max(shifts) < 0.1


def test_run_saves_its_background(whole, finished):
    """A learned one, or the mean colour of the photographs."""
    learned, mean = whole.background(), finished.background()
    assert all(0 < value < 1 and value != 0.5 for value in (*learned, *mean))
    assert learned != mean


def test_depth_needs_points(training, tmp_path):
    training.scene = write_small_scene(tmp_path / "scene", num_points=0)
    with pytest.raises(SceneError, match="no depth maps or points to compare depths with: leave out --depth-weight"):
        training.new(tmp_path / "run", depth_weight=0.1)


def test_swept_points_end_free_space_also_after_a_resume(training, tmp_path, monkeypatch):
    swept = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32), np.zeros((300, 3), np.uint8)
    monkeypatch.setattr(initial_state, "_sweep", lambda *_: (None, swept))
    training.scene = write_small_scene(tmp_path / "scene", num_points=0)
    whole, without = (
        training.new(tmp_path / f"run{weight}", init="sweep", free_space=weight) for weight in (10.0, 0.0)
    )
    expected = whole.ply_path(60).read_bytes()
    assert without.ply_path(60).read_bytes() != expected
    assert training.resume_before_end(whole, tmp_path / "resumed").ply_path(60).read_bytes() == expected


def test_metrics_state_poses_of_held_out_cameras(whole):
    assert "similarity" in json.loads(whole.metrics_path.read_text())["protocol"]

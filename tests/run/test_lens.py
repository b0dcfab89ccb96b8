"""Training with the lens that took the photographs: the run keeps it, and what does not work with it is refused."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.errors import UsageError
from splat_cli.sample import make_sample_scene
from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.lens.distortion import Polynomial
from tests.scene.transforms_files import frame_entry, write_transforms
from tests.small_scene import write_small_scene
from tests.training import Trained
from tests.views import ring_of_views

SHORT = {"steps": 20, "init": "points", "report": False, "lens": "keep"}


@pytest.fixture
def radial(tmp_path):
    return write_small_scene(tmp_path / "scene", camera_model="SIMPLE_RADIAL")


def test_run_keeps_the_lens(radial, tmp_path):
    """Its views have it, also after poses and intrinsics were refined; held-out photographs are rendered with it."""
    training = Trained(radial)
    refined = {"eval": True, "pose_opt": True, "refine_intrinsics": True}
    kept = training.new(tmp_path / "kept", **SHORT, **refined)
    views = kept.views("all")
    assert {view.distortion for view in views} == {Polynomial(radial=(0.1,))}
    assert {(view.width, view.height) for view in views} == {(40, 30)}
    assert len({view.fx for view in kept.views("train")} - {35.0}) == 1, "the focal length was not refined"
    undistorted = training.new(tmp_path / "undistorted", **{**SHORT, "lens": "undistort"}, **refined)
    psnr = [run.metrics()["steps"]["20"]["psnr"] for run in (kept, undistorted)]
    assert psnr[0] == pytest.approx(psnr[1], abs=3)
    assert psnr[0] != psnr[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"depth_weight": 0.3, "appearance": "camera", "smooth_3d": 0.2, "batch": 2, "coarse_until": 0.5},
        {"appearance": "grid", "robust": True, "free_space": 0.1, "pose_opt": True, "background": "learned"},
        {"color": "field", "steps": 4},
    ],
    ids=" ".join,
)
def test_other_models_work_through_a_lens(tmp_path, changes):
    """A lens without distortion takes the other path through the kernels, to about the same result."""
    flat = write_small_scene(tmp_path / "scene", camera_model="SIMPLE_RADIAL", parameters=(35.0, 21.0, 13.0, 0.0))
    runs = [
        Trained(flat).new(tmp_path / lens, **{**SHORT, "steps": 40, "eval": True, "lens": lens, **changes})
        for lens in ("keep", "undistort")
    ]
    psnr = [run.metrics()["steps"][f"{changes.get('steps', 40)}"]["psnr"] for run in runs]
    assert psnr[0] == pytest.approx(psnr[1], abs=0.5)


def test_sphere_walk_trains(tmp_path):
    training = Trained(make_sample_scene(tmp_path / "scene", num_views=5, width=64, height=32, camera="sphere"))
    run = training.new(tmp_path / "run", **{**SHORT, "steps": 60, "lens": "undistort"})
    losses = [entry["loss"] for entry in run.log.entries() if "loss" in entry]
    assert losses[-1] < 0.8 * losses[0]
    assert np.isfinite(losses).all()


def test_rolling_shutter_trains(tmp_path):
    """The run keeps the motion of its cameras."""
    views = ring_of_views(5)
    motion = RollingShutter((0.05, 0.0, 0.02), (0.1, 0.0, 0.0))
    frames = []
    for view in views:
        ends = zip(("start", "end"), (-0.5, 0.5), strict=True)
        poses = {end: replace(view, w2c=motion.pose(view.w2c, time)) for end, time in ends}
        matrices = {f"transform_matrix_{end}": frame_entry(pose)["transform_matrix"] for end, pose in poses.items()}
        frames.append({**frame_entry(view), **matrices})
    scene = write_transforms(tmp_path / "scene", views, frames, rolling_shutter=[0, 0, 1, 0])
    training = Trained(scene)
    run = training.new(tmp_path / "run", **{**SHORT, "init": "random"})
    assert all(np.allclose(view.rolling_shutter.rotation, motion.rotation) for view in run.views("train"))
    with pytest.raises(UsageError, match="--refine-intrinsics does not work with rolling shutters"):
        training.new(tmp_path / "no", **{**SHORT, "init": "random"}, pose_opt=True, refine_intrinsics=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pose_opt": True, "refine_intrinsics": True, "refine_distortion": True}, "--refine-distortion"),
        ({"gpus": 2}, "--lens keep"),
    ],
)
def test_options_that_do_not_work_with_a_lens(radial, tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        Trained(radial).new(tmp_path / "run", **SHORT, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pose_opt": True, "refine_intrinsics": True}, "--refine-intrinsics does not work with spherical"),
        ({"depth_weight": 1.0}, "--depth-weight does not work with spherical"),
        ({"appearance": "grid"}, "--free-space or --appearance grid does not work with spherical"),
        ({"gpus": 2, "lens": "undistort"}, "--gpus does not work with spherical"),
    ],
)
def test_options_that_do_not_work_with_spheres(tmp_path, changes, message):
    scene = write_small_scene(tmp_path / "scene", camera_model="EQUIRECTANGULAR")
    with pytest.raises(UsageError, match=message):
        Trained(scene).new(tmp_path / "run", **{**SHORT, **changes})

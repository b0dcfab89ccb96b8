"""No pixel of a held-out photograph reaches the splats on any path into training.

Each path trains on three copies of a scene. Other held-out photographs must give bit-identical splats; another
training photograph must give different ones, so that the comparison can fail.
"""

import json

import pytest

import splat_cli as splat
from splat_cli.cli.main import run as run_command
from splat_cli.run.storage.run_dir import RunDir
from tests.held_out_scenes import HELD_OUT, NAMES, TEST_EVERY, Copies
from tests.ranks.runs import Callback
from tests.training import Trained

STEPS = 16  # each of 8 photographs twice
BASE = {
    "deterministic": True,
    "steps": STEPS,
    "save_at": (),
    "densify_start": 4,
    "densify_interval": 4,
    "densify_stop": 14,
    "checkpoint_every": 0,
    "keep": 1,
    "report": False,
    "init": "points",
    "depths": "none",
    "eval": True,
    "test_every": TEST_EVERY,
    "batch": 1,
}
OPTIONS = (
    f"--device cpu --deterministic --eval --test-every {TEST_EVERY} --steps {STEPS} --densify-interval 4 --init points "
    "--depths none --no-report"
).split()
CITY = ["--cell-steps", "8", "--max-splats", "1500", "--splat-budget", "0", "--cell-splats", "1300"]

SETTINGS = {
    "one view per step": {},
    "batch": {"batch": 4},
    "ranks": {"batch": 4, "gpus": 2},
    "streamed": {"image_memory": 1e-4, "score_views": 2},
    "sweep": {"init": "sweep", "init_points": 4000},
    "sky": {"init": "auto", "sky": True, "background": "random", "init_points": 4000},
    "pose alignment": {"pose_opt": True, "refine_intrinsics": True},
    "depth maps": {"depths": "depths", "depth_maps": "metric", "depth_weight": 0.5},
    "depth of points": {"depth_weight": 0.5, "free_space": 0.5},
    "exposure": {"appearance": "exposure"},
    "grid": {"appearance": "grid"},
    "camera": {"appearance": "camera"},
    "color field": {"color": "field", "field_table_size": 2**10, "field_appearance": 2},
}
SAID = {"sweep": "of the plane sweep", "sky": "of the sky", "depth maps": "Depth maps: "}
"""Part of a message that proves that the run took this path."""


def saved_files(folder):
    """Name and bytes of each file that was saved after the last step."""
    run = RunDir(folder)
    step = run.ply_path(run.saved_steps()[-1]).parent
    return {path.name: path.read_bytes() for path in step.iterdir()}


def saved_in_memory(result, path):
    result.save(path)
    return path.read_bytes()


def by_settings(name):
    def train(scene, out):
        training, streamed = Trained(scene), []
        callback = Callback(lambda trainer: streamed.append(trainer.images.stream is not None))
        training.new(out, callback, **{**BASE, **SETTINGS[name]})
        assert set(streamed) == {name == "streamed"}
        assert any(SAID.get(name, "") in line for line in training.said), training.said
        return saved_files(out)

    return train


def by_command(scene, out):
    assert run_command(["train", str(scene), "-o", str(out), *OPTIONS]) == 0
    return saved_files(out)


def by_batch_command(scene, out):
    assert run_command(["batch", str(scene), "-o", str(out), *OPTIONS]) == 0
    return saved_files(out / scene.name)


def by_api(scene, out):
    return saved_in_memory(splat.train_scene(scene, device="cpu", quiet=True, **BASE), out.with_suffix(".ply"))


def by_api_with_scene(scene, out):
    settings = {name: value for name, value in BASE.items() if name != "depths"}
    result = splat.train_scene(splat.read_scene(scene), device="cpu", quiet=True, depth_weight=0, **settings)
    return saved_in_memory(result, out.with_suffix(".ply"))


def by_api_into_folder(scene, out):
    splat.train_scene(scene, out=out, device="cpu", quiet=True, **BASE)
    return saved_files(out)


def by_resume(scene, out):
    Trained(scene).new(out, **{**BASE, "steps": STEPS // 2})
    return saved_files(Trained(scene).resume(out, steps=STEPS).path)


def by_city(scene, out):
    assert run_command(["city", str(scene), "-o", str(out), *OPTIONS, *CITY]) == 0
    return saved_files(out)


WAYS = {name: by_settings(name) for name in SETTINGS} | {
    "command": by_command,
    "batch command": by_batch_command,
    "API": by_api,
    "API with a Scene": by_api_with_scene,
    "API into a folder": by_api_into_folder,
    "resume": by_resume,
    "city": by_city,
}


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    return Copies.write(tmp_path_factory.mktemp("scenes"), HELD_OUT)


@pytest.mark.parametrize("way", WAYS)
def test_held_out_pixels_do_not_reach_the_splats(copies, tmp_path, way):
    train = WAYS[way]
    splats = train(copies.original, tmp_path / "original")
    assert train(copies.held_out, tmp_path / "held_out") == splats
    assert train(copies.training, tmp_path / "training") != splats


def splits(scene):
    """Settings that hold out photographs by name, and the names."""
    (scene.parent / "split.txt").write_text("a_04.jpg\na_05.jpg\n")
    return {"split": {"split": str(scene.parent / "split.txt")}, "sector": {"split_by": "sector"}}


@pytest.mark.parametrize("by", ["split", "sector"])
def test_photographs_held_out_by_name_do_not_reach_the_splats(copies, tmp_path, by):
    settings = {**BASE, **splits(copies.original)[by]}
    run = Trained(copies.original).new(tmp_path / "original", **settings)
    names = json.loads(run.split_path.read_text())
    assert sorted(names["train"] + names["test"]) == NAMES
    others = Copies.write(tmp_path / "scenes", names["test"], names["train"][0])
    splats = saved_files(run.path)
    assert saved_files(Trained(others.held_out).new(tmp_path / "held_out", **settings).path) == splats
    assert saved_files(Trained(others.training).new(tmp_path / "training", **settings).path) != splats


def test_held_out_photographs_are_those_that_are_scored(copies, tmp_path):
    run = Trained(copies.original).new(tmp_path / "run", **BASE)
    assert sorted(run.metrics()["steps"][str(STEPS)]["per_image"]) == HELD_OUT

"""Non-finite numbers in initial splats and points: left out, and counted."""

import dataclasses
import shutil

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli import train_scene
from splat_cli.config import TrainConfig
from splat_cli.errors import UsageError
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.run.storage.inputs import refuse_seen
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.read import read_scene
from tests.training import Trained


def _photograph(scene, folder, bad, mask=None):
    """A copy of the scene with one grey float photograph. Some pixels are `bad`, or have `mask` over them."""
    shutil.copytree(scene, folder)
    levels = np.random.default_rng(0).random((30, 40), np.float32)
    places = np.zeros(levels.shape, bool)
    places[4:9, 30:37] = places[20, 3] = True
    levels[places] = bad
    Picture.fromarray(levels).save(folder / "images" / "a_02.jpg", "TIFF")
    if mask is not None:
        (folder / "masks").mkdir()
        Picture.fromarray(np.where(places, mask, 255).astype(np.uint8)).save(folder / "masks" / "a_02.png")
    return folder


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nonfinite_pixels_are_ignored_as_if_masked(scene, tmp_path, bad):
    broken = Trained(_photograph(scene, tmp_path / "broken", bad))
    masked = Trained(_photograph(scene, tmp_path / "masked", 0.25, mask=0))
    unmasked = Trained(_photograph(scene, tmp_path / "unmasked", 0.25))
    runs = [one.new(tmp_path / f"run-{i}") for i, one in enumerate((broken, masked, unmasked))]
    bits = [run.ply_path(60).read_bytes() for run in runs]
    assert bits[0] == bits[1] != bits[2]
    warnings = [line for line in broken.said if "not finite" in line]
    assert warnings == ["Warning: 36 pixels are not finite and do not count: 36 in a_02.jpg"]


def test_nonfinite_pixels_of_lazily_decoded_photographs(scene, tmp_path):
    broken = Trained(_photograph(scene, tmp_path / "broken", np.nan))
    late = broken.new(tmp_path / "late", score_views=4, image_memory=8 * 3 * 40 * 30 / 2**30)
    warnings = [line for line in broken.said if "not finite" in line]
    assert warnings == ["Warning: does not count: a_02.jpg: 36 pixels that are not finite"]
    whole = broken.new(tmp_path / "whole", score_views=4)
    assert late.ply_path(60).read_bytes() == whole.ply_path(60).read_bytes()


def test_nonfinite_point_is_left_out(scene, training, finished, tmp_path):
    broken = Trained(shutil.copytree(scene, tmp_path / "broken"))
    model = read_model(broken.scene / "sparse" / "0")
    model.points = np.insert(model.points, 7, [0, np.nan, 0], axis=0)
    model.colors = np.insert(model.colors, 7, 0, axis=0)
    model.errors = model.track_lengths = None
    write_model(broken.scene / "sparse" / "0", model)
    run = broken.new(tmp_path / "run")
    assert "Left out points: 1 not finite" in broken.said
    assert run.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()


@pytest.fixture
def start(finished, tmp_path):
    """Two files of splats: in the first, the eighth splat has a non-finite number; the second lacks this splat."""
    splats = read_ply(finished.ply_path(60))
    write_ply(tmp_path / "good.ply", splats)
    doubled = splats.select(np.insert(np.arange(len(splats)), 7, 7))
    doubled.log_scales[7, 1] = np.nan
    write_ply(tmp_path / "broken.ply", doubled)
    return tmp_path / "broken.ply", tmp_path / "good.ply"


def test_nonfinite_splat_is_left_out(training, start, tmp_path):
    broken, good = [training.new(tmp_path / path.stem, init_from=str(path)) for path in start]
    assert broken.ply_path(60).read_bytes() == good.ply_path(60).read_bytes()
    warnings = [line for line in training.said if "not finite" in line]
    assert warnings == [f"Warning: {start[0]}: left out 1 splats that are not finite"]


def test_a_limit_below_the_number_of_splats_is_a_warning(training, start, tmp_path):
    training.new(tmp_path / "run", init_from=str(start[1]), max_splats=50, steps=2)
    expected = f"Warning: starting from 50 of the {len(read_ply(start[1])):,} splats of"
    assert any(line.startswith(expected) for line in training.said)


def test_photographs_that_the_initial_splats_were_trained_on_are_not_held_out(training, trained, finished, tmp_path):
    """Their scores would be too good; `finished` is a run without held-out photographs."""
    splats = RunDir(trained).ply_path(20)
    for changes in ({"init_from": str(splats)}, {"frozen": str(splats)}, {"init_from": str(finished.ply_path(60))}):
        with pytest.raises(UsageError, match=r"trained on \d of 3 held-out photographs \((a_00.jpg; )?a_04.jpg;"):
            training.new(tmp_path / "run", eval=True, test_every=4, **changes)
    run = training.new(tmp_path / "run", eval=True, test_every=3, init_from=str(splats), steps=1)
    training.resume(run.path, steps=2)


@pytest.mark.parametrize("change", ["renamed", "re-encoded"])
def test_a_photograph_is_known_under_another_name_or_in_another_encoding(training, trained, scene, tmp_path, change):
    other = shutil.copytree(scene, tmp_path / "scene")
    model = read_model(folder := other / "sparse" / "0")
    for number, image in enumerate(model.images):
        path = other / "images" / image.name
        if change == "renamed":
            model.images[number] = dataclasses.replace(image, name=f"b_{number}.jpg", translation=(0, 0, 3 + number))
            path.rename(path.with_name(f"b_{number}.jpg"))
        else:
            Picture.open(path).save(path, quality=50)
    write_model(folder, model)
    with pytest.raises(UsageError, match=r"trained on 2 of 3 held-out photographs \([ab]_0?4\.jpg; [ab]_0?8\.jpg\)"):
        Trained(other).new(tmp_path / "run", eval=True, test_every=4, init_from=str(RunDir(trained).ply_path(20)))


def test_copies_of_held_out_photographs_are_a_warning(scene, tmp_path, capsys):
    """Copies of the file, or of another size and encoding at about the same pose, as `splat sfm` finds it."""
    other = shutil.copytree(scene, tmp_path / "scene")
    for name in ("a_01.jpg", "a_06.jpg"):
        shutil.copy(other / "images" / "a_03.jpg", other / "images" / name)
    model = read_model(folder := other / "sparse" / "0")
    poses = {image.name: image for image in model.images}
    for number, image in enumerate(model.images):
        if image.name == "a_08.jpg":
            x, y, z = poses["a_00.jpg"].translation
            moved = (x + 1e-3, y, z)
            model.images[number] = dataclasses.replace(image, quat=poses["a_00.jpg"].quat, translation=moved)
    write_model(folder, model)
    training, options = Trained(other), {"eval": True, "test_every": 3, "steps": 1, "init": "points"}
    training.new(tmp_path / "run", **options)
    found = [line for line in training.said if "under other names" in line]
    copies = "(a_00.jpg is a_08.jpg; a_03.jpg is a_01.jpg; a_06.jpg is a_01.jpg)"
    expected = f"3 held-out photographs are trained on under other names or at the same pose {copies}"
    assert [line.partition(": ")[2].partition(": ")[0] for line in found] == [expected]
    train_scene(other, device="cpu", quiet=True, **options)
    assert expected in capsys.readouterr().err


def test_the_first_run_of_a_chain_counts_too(training, finished, scene, tmp_path):
    """The second run was trained on other photographs, with splats that had seen those that the third holds out."""
    second, first = RunDir(shutil.copytree(finished.path, tmp_path / "second")), str(finished.ply_path(60))
    second.save_cameras([view for view in finished.views("all") if view.name != "a_04.jpg"])
    held_out = [view for view in read_scene(scene).views if view.name == "a_04.jpg"]
    start = TrainConfig(init_from=str(second.ply_path(60)))
    assert refuse_seen(held_out, start) is None
    for source, other in (("init_from", "frozen"), ("frozen", "init_from")):
        files = {source: first, other: start.init_from}  # another run took the place of the first
        second.save_config(dataclasses.replace(finished.config(), **files), scene, "CPU")
        with pytest.raises(UsageError, match=r"on 1 of 1 held-out photographs \(a_04\.jpg\).* that .*whole held"):
            refuse_seen(held_out, start)


def test_splats_whose_photographs_are_unknown_are_a_warning(training, start, tmp_path):
    training.new(tmp_path / "run", init_from=str(start[1]), steps=1, eval=True)
    expected = f"Warning: {start[1]} is not in the folder of a run, which would list its photographs"
    assert sum(line.startswith(expected) for line in training.said) == 1
    assert refuse_seen([], TrainConfig(init_from=str(start[1]))) is None


def test_without_initial_splats_no_photograph_is_read(scene, monkeypatch):
    monkeypatch.setattr("splat_cli.run.storage.inputs.fingerprint", lambda path: pytest.fail(f"read {path}"))
    assert refuse_seen(read_scene(scene).views, TrainConfig()) is None


def test_resume_does_not_need_the_initial_splats(training, start, tmp_path):
    run = training.new(tmp_path / "run", init_from=str(start[0]))
    bits = run.ply_path(60).read_bytes()
    for path in (run.result_path, run.checkpoints_path / "step_60.npz", start[0]):
        path.unlink()
    training.resume(run.path)
    assert any(line.startswith("Continuing from step ") for line in training.said)
    assert run.ply_path(60).read_bytes() == bits
    assert sum("finite" in line for line in training.said) == 1  # not again

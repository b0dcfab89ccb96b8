"""`--frozen FILE`: its splats stay unchanged, also after a resume; options that would change them are refused."""

import dataclasses

import numpy as np
import pytest

from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint, write_checkpoint
from splat_cli.run.storage.run_dir import RunDir
from tests.gaussians.some_splats import some_splats

NUM = 40


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    path = tmp_path_factory.mktemp("frozen") / "surroundings.ply"
    write_ply(path, dataclasses.replace(some_splats(NUM, degree=3), antialiased=True))
    return path


def frozen_part(run, step=60):
    splats = read_ply(run.ply_path(step))
    return [array[:NUM].tobytes() for array in splats.arrays().values()]


def contents(path):
    return [array.tobytes() for array in read_ply(path).arrays().values()]


def test_the_saved_file_begins_with_the_frozen_splats(training, surroundings, tmp_path):
    run = training.new(tmp_path / "run", frozen=str(surroundings))
    assert frozen_part(run) == contents(surroundings)
    assert len(read_ply(run.ply_path(60))) > NUM + 100


def test_resume_does_not_need_the_frozen_file(training, surroundings, tmp_path):
    file = tmp_path / "frozen.ply"
    file.write_bytes(surroundings.read_bytes())
    whole = training.new(tmp_path / "whole", frozen=str(file))
    saved = whole.ply_path(60).read_bytes()
    file.unlink()
    *newer, oldest = checkpoint_paths(whole.checkpoints_path)
    for path in newer:
        path.unlink()
    whole.result_path.unlink()
    whole.ply_path(60).unlink()
    checkpoint = read_checkpoint(oldest)
    assert checkpoint.step < 60
    assert (checkpoint.num_frozen, checkpoint.num_splats > NUM) == (NUM, True)
    assert training.resume(whole.path).ply_path(60).read_bytes() == saved


def test_checkpoints_of_earlier_versions_have_more_moments(training, surroundings, tmp_path):
    whole = training.new(tmp_path / "whole", frozen=str(surroundings))
    saved = whole.ply_path(60).read_bytes()
    *newer, oldest = checkpoint_paths(whole.checkpoints_path)
    for path in (*newer, whole.result_path, whole.ply_path(60)):
        path.unlink()
    checkpoint = read_checkpoint(oldest)
    for name in ("moments", "stats"):
        assert checkpoint.arrays[name].shape[1] == checkpoint.num_splats - 32
        more_rows = 0 if name == "stats" else 45  # those of view-dependent colours
        checkpoint.arrays[name] = np.pad(checkpoint.arrays[name], ((0, more_rows), (32, 0)))
    write_checkpoint(oldest, checkpoint)
    assert training.resume(whole.path).ply_path(60).read_bytes() == saved


def test_frozen_splats_cannot_change_in_a_run(training, surroundings, tmp_path):
    run = RunDir(training.new(tmp_path / "run", steps=5).path)
    with pytest.raises(UsageError, match="--frozen cannot change"):
        training.resume(run.path, frozen=str(surroundings), steps=9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"color": "field"}, "--frozen does not work with --color field"),
        ({"smooth_3d": 0.2}, "--frozen does not work with --smooth-3d"),
        ({"gpus": 2}, "--gpus 2 does not work with --frozen"),
        ({"frozen": "nowhere.ply"}, "no file .*nowhere.ply .*correct --frozen"),
    ],
)
def test_refused_options(training, surroundings, tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        training.new(tmp_path / "run", **{"frozen": str(surroundings), **changes})


def test_a_damaged_file(training, tmp_path):
    (tmp_path / "bad.ply").write_text("ply\nnothing")
    with pytest.raises(FormatError, match="bad.ply"):
        training.new(tmp_path / "run", frozen=str(tmp_path / "bad.ply"))


def test_frozen_splats_count_in_memory_and_other_antialiasing_is_a_warning(training, tmp_path):
    write_ply(tmp_path / "plain.ply", some_splats(NUM, degree=1))
    training.new(tmp_path / "run", frozen=str(tmp_path / "plain.ply"), steps=3, sh_degree=1)
    said = "\n".join(training.said)
    assert f"and {NUM} frozen ones" in said
    assert "plain.ply were trained with --no-antialias" in said
    assert np.array_equal(read_ply(tmp_path / "plain.ply").means, some_splats(NUM, degree=1).means)

"""Checkpoints of a run: how many, their content, damaged ones."""

import dataclasses
import random
from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.errors import FormatError, UsageError
from splat_cli.model.model import packed_moments
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import Checkpoint, read_checkpoint
from splat_cli.run.checkpoints.state import capture_state, checkpoint_bytes, restore_state
from tests.model.moments import unpacked
from tests.noise_trainer import noise_trainer
from tests.subprocesses import ROOT


def test_the_newest_checkpoints_are_kept(finished):
    steps = [read_checkpoint(path).step for path in checkpoint_paths(finished.checkpoints_path)]
    assert steps[0] == 60
    assert len(steps) == 3
    assert steps == sorted(steps, reverse=True)


def test_checkpoint_holds_what_the_page_says(finished):
    checkpoint = read_checkpoint(checkpoint_paths(finished.checkpoints_path)[0])
    num = checkpoint.arrays["params"].shape[1]
    shapes = {name: (array.shape, array.dtype) for name, array in checkpoint.arrays.items()}
    rows = {"params": 59, "moments": 14, "stats": 2}
    assert shapes == {name: ((count, num), np.float32) for name, count in rows.items()}
    page = (ROOT / "docs" / "checkpoints.md").read_text()
    for key in ("format", "program", "step", *checkpoint.metadata, *checkpoint.arrays):
        assert f"`{key}`" in page
    planes = sum(array.nbytes for array in checkpoint.arrays.values())
    assert planes <= checkpoint_bytes(num, 59) - 2**20 <= 1.02 * planes  # and the 3D filter


@pytest.mark.parametrize("rows", [14, 59])
def test_moments_of_earlier_versions(rows):
    """Float32 in two arrays, or also of view-dependent colours."""
    trainer = noise_trainer(open_backend("cpu"), 100)
    trainer.run_until(5)
    checkpoint = capture_state(trainer)
    words = checkpoint.arrays.pop("moments").copy()
    assert words.any()
    moments = [np.resize(array.astype(np.float32), (rows, 100)) for array in unpacked(words)]
    for arrays in ({"moments1": moments[0], "moments2": moments[1][:14]}, {"moments": packed_moments(*moments)}):
        trainer.model.moments[...] = 0
        restore_state(trainer, dataclasses.replace(checkpoint, arrays=checkpoint.arrays | arrays))
        np.testing.assert_array_equal(trainer.model.moments[:, :100].view("uint32"), words.view("uint32"))


def test_keep_zero_writes_no_checkpoints(training, tmp_path):
    run = training.new(tmp_path / "run", keep=0)
    assert not run.checkpoints_path.exists()


@pytest.mark.parametrize(
    ("names", "difference"),
    [
        (["a", "c"], "b came or went"),
        (["a", "b", "c", "d"], "d came or went"),
        (["a", "c", "b"], "they are in another order, c instead of b"),
        (["a", "b", "c", "c"], "they are in another order, c instead of None"),
    ],
)
def test_other_photographs_than_those_of_the_checkpoint_are_named(names, difference):
    trainer = SimpleNamespace(cameras=SimpleNamespace(views=[SimpleNamespace(name=name) for name in names]))
    with pytest.raises(UsageError, match=f"are not those that the run was trained on: {difference}; put them back"):
        restore_state(trainer, Checkpoint(10, {}, {"views": ["a", "b", "c"]}))


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_newest_checkpoint_that_is_damaged_is_set_aside(training, finished, copy, damage):
    newest, before = checkpoint_paths(copy.checkpoints_path)[:2]
    step = read_checkpoint(before).step
    _damage(newest, damage)
    training.resume(copy.path)
    warning = next(line for line in training.said if line.startswith("Warning: "))
    assert str(newest) in warning
    assert "damaged" in warning
    assert f"Continuing from step {step}" in training.said
    assert newest.with_name(newest.name + ".unreadable").is_file()
    assert copy.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()


def test_every_flipped_byte_is_found(finished, tmp_path):
    whole = bytearray(checkpoint_paths(finished.checkpoints_path)[0].read_bytes())
    path = tmp_path / "step_1.npz"
    for at in [0, 5, 20, len(whole) - 1, *random.Random(0).sample(range(len(whole)), 40)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FormatError):
            read_checkpoint(path)


def test_only_damaged_checkpoints_are_an_error(training, copy):
    for path in checkpoint_paths(copy.checkpoints_path):
        _damage(path, "flip")
    with pytest.raises(FormatError, match="no checkpoint of the run can be read"):
        training.resume(copy.path)


def _damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "flip":
        content[len(content) // 2] ^= 16
    elif how == "truncate":
        del content[-1000:]
    else:
        content.clear()
    path.write_bytes(content)


def test_leftovers_of_a_killed_run_are_removed(training, copy):
    (copy.checkpoints_path / ".step_50.npz.17.part").touch()
    training.resume(copy.path)
    assert not list(copy.path.rglob(".*"))

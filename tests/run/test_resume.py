"""Runs that are killed, interrupted, damaged, extended: they go on, to the same bits where that is promised."""

import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import FORMAT, read_checkpoint, write_checkpoint
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.storage.run_lock import existing_run, new_run_folder
from tests.processes import (
    HANG,
    ROOT,
    SPLAT,
    endless_training,
    newest_checkpoint,
    started,
    wait_for_checkpoint,
    wait_until,
)

OPTIONS = ["--deterministic", "--densify-start=20", "--densify-interval=20", "--no-report"]


def _bits(run, step=60):
    return run.ply_path(step).read_bytes()


def test_checkpoints_are_kept_up_to_the_number_asked_for(finished):
    steps = [read_checkpoint(path).step for path in checkpoint_paths(finished.checkpoints_path)]
    assert steps[0] == 60
    assert len(steps) == 3
    assert steps == sorted(steps, reverse=True)


def test_checkpoint_holds_what_the_page_says(finished):
    checkpoint = read_checkpoint(checkpoint_paths(finished.checkpoints_path)[0])
    num = checkpoint.arrays["params"].shape[1]
    shapes = {name: (array.shape, array.dtype) for name, array in checkpoint.arrays.items()}
    planes = ((59, num), np.float32)
    assert shapes == {"params": planes, "moments1": planes, "moments2": planes, "stats": ((2, num), np.float32)}
    page = (ROOT / "docs" / "checkpoints.md").read_text()
    for key in ("format", "program", "step", *checkpoint.metadata, *checkpoint.arrays):
        assert f"`{key}`" in page


def test_no_checkpoints_where_none_are_wanted(training, tmp_path):
    run = training.new(tmp_path / "run", keep=0)
    assert not run.checkpoints_path.exists()


def test_resumed_run_ends_with_the_same_bits(training, finished, copy):
    training.resume(copy.path)
    assert any(line.startswith("Going on from step ") for line in training.said)
    assert _bits(copy) == _bits(finished)
    assert copy.result()["num_splats"] == finished.result()["num_splats"]


def test_resumed_run_in_batches_ends_with_the_same_bits(training, tmp_path):
    finished = training.new(tmp_path / "batches", batch=4, checkpoint_every=12)
    assert any("15 updates" in line for line in training.said)
    expected = _bits(finished)
    checkpoint_paths(finished.checkpoints_path)[0].unlink()
    (finished.path / "result.json").unlink(missing_ok=True)
    training.resume(finished.path)
    assert _bits(finished) == expected


def test_run_without_a_checkpoint_starts_again(training, finished, copy):
    shutil.rmtree(copy.checkpoints_path)
    training.resume(copy.path)
    assert "No checkpoint was saved yet: starting from step 0" in training.said
    assert _bits(copy) == _bits(finished)
    steps = [line["step"] for line in copy.log_lines()]
    assert steps == sorted(steps)


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "version"])
def test_newest_checkpoint_that_cannot_be_read_is_set_aside(training, finished, copy, damage):
    newest, before = checkpoint_paths(copy.checkpoints_path)[:2]
    step = read_checkpoint(before).step
    _damage(newest, damage)
    training.resume(copy.path)
    warning = next(line for line in training.said if line.startswith("Warning: "))
    assert str(newest) in warning
    assert ("version" if damage == "version" else "damaged") in warning
    assert f"Going on from step {step}" in training.said
    assert newest.with_name(newest.name + ".unreadable").is_file()
    assert _bits(copy) == _bits(finished)


def test_every_flipped_byte_is_found(finished, tmp_path):
    whole = bytearray(checkpoint_paths(finished.checkpoints_path)[0].read_bytes())
    path = tmp_path / "step_1.npz"
    for at in [0, 5, 20, len(whole) - 1, *random.Random(0).sample(range(len(whole)), 40)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(FormatError):
            read_checkpoint(path)


def test_run_whose_checkpoints_are_all_damaged_says_so(training, copy):
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
    elif how == "empty":
        content.clear()
    else:
        checkpoint = read_checkpoint(path)
        checkpoint.metadata["format"] = FORMAT + 1
        write_checkpoint(path, checkpoint)
        return
    path.write_bytes(content)


def test_finished_run_is_extended(training, finished, tmp_path):
    run = RunDir(shutil.copytree(finished.path, tmp_path / "run"))
    with pytest.raises(UsageError, match="finished after 60 steps"):
        training.resume(run.path)
    training.resume(run.path, steps=80)
    assert "Changed: --steps 60 -> 80" in training.said
    assert "Going on from step 60" in training.said
    assert run.saved_steps() == [60, 80]
    assert run.config().steps == 80


def test_settings_that_cannot_change_are_named(training, copy):
    with pytest.raises(UsageError, match="--seed, --sh-degree cannot change"):
        training.resume(copy.path, seed=5, sh_degree=1)


def test_a_run_of_before_goes_on_along_the_axes_of_the_world(training, copy):
    text = copy.config_path.read_text()
    assert copy.config().local_frame_adam
    copy.config_path.write_text(text.replace("local_frame_adam = true\n", ""))
    assert not copy.config().local_frame_adam
    with pytest.raises(UsageError, match="--local-frame-adam cannot change"):
        training.resume(copy.path, local_frame_adam=True)


def test_photograph_that_is_gone_is_named(training, copy, scene, tmp_path):
    moved = shutil.copytree(scene, tmp_path / "moved")
    (moved / "images" / "a_02.jpg").unlink()
    copy.save_config(copy.config(), moved, "CPU")
    with pytest.raises(UsageError, match=r"a_02\.jpg"):
        training.resume(copy.path)


def test_start_from_a_ply_of_another_degree(training, finished, tmp_path):
    splats = read_ply(finished.ply_path(60))
    path = tmp_path / "start.ply"
    write_ply(path, splats)
    run = training.new(tmp_path / "run", init_from=str(path), steps=1, sh_degree=2, lr_means=0.0, lr_means_final=0.0,
                       noise_scale=0.0)  # fmt: skip
    after = read_ply(run.ply_path(1))
    assert after.sh_degree == 2
    np.testing.assert_array_equal(after.means, splats.means)


def test_folder_is_locked(training, copy):
    with existing_run(copy.path), pytest.raises(UsageError, match="in use by another process"):
        training.resume(copy.path)
    with new_run_folder(copy.path.parent / "new") as run, pytest.raises(UsageError, match="in use"):
        training.new(run.path)


def test_log_goes_on_where_the_checkpoint_was(training, copy):
    with copy.log_path.open("a") as file:
        file.write('{"step": 1000000}\n{"step": 10')
    training.resume(copy.path)
    assert "1000000" not in copy.log_path.read_text()
    assert all(line.endswith("}") for line in copy.log_path.read_text().splitlines())


def test_leftovers_of_a_killed_run_are_removed(training, copy):
    (copy.checkpoints_path / ".step_50.npz.17.part").touch()
    training.resume(copy.path)
    assert not list(copy.path.rglob(".*"))


def _training(run, scene):
    """Starts or resumes an endless training that saves splats after 200 steps; it is killed at the end."""
    arguments = endless_training(scene, run.path, "--save-at=200", *OPTIONS)
    if is_run(run.path):
        arguments = ["train", "--resume", str(run.path), "--device=cpu"]
    return started([*SPLAT, *arguments], stderr=subprocess.PIPE)


def _train_and_save(run, scene):
    with _training(run, scene) as process:
        wait_until(run.ply_path(200).is_file, process)


@pytest.mark.slow
def test_killed_at_random_moments(scene, tmp_path):
    whole, killed = RunDir(tmp_path / "whole"), RunDir(tmp_path / "killed")
    _train_and_save(whole, scene)
    dice = random.Random(1)
    for _ in range(4):
        with _training(killed, scene) as process:
            wait_for_checkpoint(process, killed.path, newest_checkpoint(killed.path))
            time.sleep(dice.uniform(0, 0.1))
    _train_and_save(killed, scene)
    assert _bits(killed, 200) == _bits(whole, 200)


def _interrupted(run, scene, number, times=1):
    """(exit code, stderr) of a long training that gets a signal after its first steps."""
    with started([*SPLAT, *endless_training(scene, run.path, *OPTIONS)], stderr=subprocess.PIPE) as process:
        wait_for_checkpoint(process, run.path)
        for _ in range(times):
            process.send_signal(number)
        _, err = process.communicate(timeout=HANG)
        return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_saves_and_tells_how_to_resume(scene, tmp_path, training, number):
    run = RunDir(tmp_path / "run")
    code, err = _interrupted(run, scene, number)
    assert (code, "Traceback" in err) == (128 + number, False), err
    (step,) = run.saved_steps()
    assert f"Interrupted after step {step}; " in err
    assert f"go on with: splat train --resume {run.path}" in err
    assert read_checkpoint(checkpoint_paths(run.checkpoints_path)[0]).step == step
    training.resume(run.path, steps=step + 5)
    assert run.saved_steps() == [step, step + 5]


def test_a_second_hangup_is_ignored(scene, tmp_path):
    """A shell sends one to its jobs, and the terminal's driver another."""
    run = RunDir(tmp_path / "run")
    code, err = _interrupted(run, scene, signal.SIGHUP, times=20)
    assert code == 129, err
    assert run.saved_steps()


def test_second_signal_ends_at_once_without_harm(scene, tmp_path, training):
    run = RunDir(tmp_path / "run")
    code, _ = _interrupted(run, scene, signal.SIGTERM, times=2)
    assert code in (128 + signal.SIGTERM, -signal.SIGTERM)
    steps = [read_checkpoint(path).step for path in checkpoint_paths(run.checkpoints_path)]
    last = max(steps, default=0) + 5
    training.resume(run.path, steps=last)
    assert run.result()["steps"] == last

"""Runs that are resumed: the same bits, more steps, other settings, other photographs."""

import re
import shutil

import numpy as np
import pytest

from splat_cli.errors import UsageError
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.storage.find_run import locked_run, new_locked_run
from splat_cli.run.storage.run_dir import RunDir


def _bits(run, step=60):
    return run.ply_path(step).read_bytes()


def test_resumed_run_ends_with_the_same_bits(training, finished, copy):
    training.resume(copy.path)
    assert any(line.startswith("Continuing from step ") for line in training.said)
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


def test_run_without_checkpoint_and_splats_starts_again(training, finished, copy):
    shutil.rmtree(copy.checkpoints_path)
    training.resume(copy.path)
    assert "No checkpoint was saved yet: starting from step 0" in training.said
    assert _bits(copy) == _bits(finished)
    steps = [line["step"] for line in copy.log.entries()]
    assert steps == sorted(steps)


def test_finished_run_is_extended(training, finished, tmp_path):
    run = RunDir(shutil.copytree(finished.path, tmp_path / "run"))
    with pytest.raises(UsageError, match="finished after 60 steps"):
        training.resume(run.path)
    training.resume(run.path, steps=80)
    assert "Changed: --steps 60 -> 80" in training.said
    assert "Continuing from step 60" in training.said
    assert run.saved_steps() == [60, 80]
    assert run.config().steps == 80


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("seed = 5", "--seed 0 -> 5"),
        ('background = "white"', "--background random -> white"),
        ("robust = true", "--robust"),
    ],
)
def test_a_run_whose_config_was_edited_is_not_continued(training, copy, setting, told):
    """The rest of the run was trained with other settings than its beginning, without a word."""
    content = copy.config_path.read_text()
    name = setting.partition(" ")[0]
    assert re.search(rf"(?m)^{name} = ", content)
    copy.config_path.write_text(re.sub(rf"(?m)^{name} = .*$", setting, content))
    for changes in ({}, {"steps": 80}):
        with pytest.raises(UsageError, match=rf"config.toml was edited since step \d+ \({told}"):
            training.resume(copy.path, **changes)


def test_max_splats_below_the_number_of_splats_is_a_warning(training, finished, tmp_path):
    run = RunDir(shutil.copytree(finished.path, tmp_path / "run"))
    before = run.result()["num_splats"]
    training.resume(run.path, steps=70, max_splats=before)
    assert not any("is below the" in line for line in training.said)
    before = run.result()["num_splats"]
    training.resume(run.path, steps=80, max_splats=50)
    assert any(f"--max-splats 50 is below the {before:,} splats of {run.path}" in line for line in training.said)


def test_settings_that_cannot_change_are_named(training, copy):
    with pytest.raises(UsageError, match="--seed, --sh-degree cannot change"):
        training.resume(copy.path, seed=5, sh_degree=1)


@pytest.mark.parametrize("changes", [{"min_track_length": 3}, {"max_point_error": 1.0}, {"spz_axes": "rdf"}])
def test_settings_that_are_read_only_at_the_start_are_refused(training, copy, changes):
    with pytest.raises(UsageError, match="cannot change"):
        training.resume(copy.path, **changes)


def test_a_run_without_local_frame_adam_keeps_the_axes_of_the_world(training, copy):
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
    run = training.new(
        tmp_path / "run", init_from=str(path), steps=1, sh_degree=2, lr_means=0.0, lr_means_final=0.0, noise_scale=0.0
    )
    after = read_ply(run.ply_path(1))
    assert after.sh_degree == 2
    np.testing.assert_array_equal(after.means, splats.means)


def test_folder_is_locked(training, copy):
    with locked_run(copy.path), pytest.raises(UsageError, match="in use by another process"):
        training.resume(copy.path)
    with new_locked_run(copy.path.parent / "new") as run, pytest.raises(UsageError, match="in use"):
        training.new(run.path)


def test_log_is_cut_at_the_checkpoint(training, copy):
    with copy.log.path.open("a") as file:
        file.write('{"step": 1000000}\n{"step": 10')
    training.resume(copy.path)
    assert "1000000" not in copy.log.path.read_text()
    assert all(line.endswith("}") for line in copy.log.path.read_text().splitlines())

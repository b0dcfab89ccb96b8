"""Which unfinished run the same command continues."""

import dataclasses
from pathlib import Path

import pytest

from splat_cli.config import TrainConfig
from splat_cli.run.resume import interrupted_run
from splat_cli.run.setup.training_data import with_fixed_paths
from splat_cli.run.setup.trials import Trial, Trials
from splat_cli.run.storage.run_dir import RunDir

SCENE = Path("scene")


def begun(folder, **settings):
    """A run that has begun with these settings; the plan has set its steps, batch and appearance."""
    folder.mkdir()
    run = RunDir(folder)
    config = TrainConfig(**{"steps": 9_000, "batch": 4, "appearance": "none"} | settings)
    run.save_config(with_fixed_paths(config, SCENE), SCENE, "CPU")
    run.save_cameras([])
    return run


@pytest.mark.parametrize(
    ("before", "asked", "is_same"),
    [
        ({}, {}, True),  # the scene decided, and decides again
        ({}, {"steps": 9_000}, True),
        ({}, {"steps": 8_998}, True),  # whole batches
        ({}, {"steps": 8_000}, False),
        ({}, {"steps": 9_000, "batch": 2}, False),
        ({"init_from": "a.ply"}, {"init_from": "a.ply"}, True),
        ({"coarse_levels": 1}, {}, True),  # saved by earlier versions, whose default was a number
        ({"coarse_levels": 1}, {"coarse_levels": 2}, False),
        ({}, {"steps": 9_000, "eval": True}, False),
        ({"steps": 8_998, "batch": 2, "gpus": 2}, {"steps": 8_998, "gpus": 2}, True),
    ],
)
def test_settings_must_be_those_of_the_run(tmp_path, before, asked, is_same):
    run = begun(tmp_path / "run", **before)
    assert (interrupted_run([tmp_path, run.path], SCENE, TrainConfig(**asked)) == run.path) is is_same


def test_settings_that_trials_chose_count_as_defaults(tmp_path):
    run = begun(tmp_path / "run", free_space=1.0, dropout=0.3)
    assert interrupted_run([run.path], SCENE, TrainConfig(steps=9_000)) is None
    chosen = {"steps": 9_000, "free_space": 1.0, "dropout": 0.3}
    run.save_trials(dataclasses.asdict(Trials(20, 15, [], [Trial(2_500, 1.0, "none", 20.0, 0.5, [])], chosen)))
    assert interrupted_run([run.path], SCENE, TrainConfig()) == run.path
    assert interrupted_run([run.path], SCENE, TrainConfig(steps=9_000)) is None, "without trials"
    assert interrupted_run([run.path], SCENE, TrainConfig(dropout=0.2)) is None
    assert interrupted_run([run.path], SCENE, TrainConfig(free_space=1.0)) is None


def test_finished_and_damaged_runs_and_other_scenes_are_passed_over(tmp_path):
    asked = TrainConfig(steps=9_000)
    runs = [begun(tmp_path / name) for name in ("finished", "damaged", "without cameras", "first", "second")]
    runs[0].save_result({"steps": 9_000})
    runs[1].config_path.write_text("steps = -")
    runs[2].cameras_path.unlink()
    folders = [run.path for run in runs]
    assert interrupted_run(folders, SCENE, asked) == folders[3]
    assert interrupted_run(folders, Path("other"), asked) is None

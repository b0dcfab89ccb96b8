"""Runs that start from the joined splats of others."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.run import plan
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup import ensemble
from splat_cli.run.setup.ensemble import joined, settings_of_member
from splat_cli.run.storage.run_dir import RunDir
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views

QUICK = "--device", "cpu", "--no-report", "--init", "points", "--ensemble", 2


def test_joined_splats_let_as_much_light_pass_as_those_of_one_member():
    one = some_splats(50)
    one = dataclasses.replace(one, logit_opacities=np.linspace(-30, 12, 50, dtype=np.float32))
    splats = joined([one, one, one])
    light = np.log1p(np.exp(splats.logit_opacities.astype(np.float64))).reshape(3, 50).sum(axis=0)
    np.testing.assert_allclose(light, np.log1p(np.exp(one.logit_opacities.astype(np.float64))), rtol=1e-5)
    np.testing.assert_array_equal(splats.means, np.tile(one.means, (3, 1)))


def test_members_are_single_runs_of_the_default_length_with_seeds_of_their_own():
    asked = TrainConfig(ensemble=3, steps=40, gpus=2, save_at=(7,), max_splats=3_100, seed=2**31 - 2, dropout=0.1)
    whole = resolve_plan(asked, ring_of_views(12))
    members = [settings_of_member(whole, number) for number in range(3)]
    assert [member.seed for member in members] == [2**31 - 2, 2**31 - 1, 0]
    plans = [resolve_plan(member, ring_of_views(12)) for member in members]
    assert {(one.joins, one.config.steps, one.config.max_splats, one.config.gpus) for one in plans} == {
        (False, 5_000, 1_033, 1)
    }
    assert (plans[0].config.save_at, plans[0].config.dropout) == (None, 0.1)


@pytest.fixture
def short_members(monkeypatch):
    """Two members of six steps, and four steps after they are joined; the members of each run."""
    monkeypatch.setattr(plan, "STEPS_OF_FEW", 6)
    monkeypatch.setattr(plan, "JOINED_STEPS", 4)
    found = []
    monkeypatch.setattr(ensemble, "joined", lambda members: found.append(members) or joined(members))
    return found


def test_a_run_on_few_photographs_joins_splats_once(splat, scene, short_members):
    shown = splat("train", scene, "-o", "run", *QUICK, "--checkpoint-every", 2)
    assert shown.code == 0, shown.err
    assert "Run 2 of 2, to be joined: 6 steps" in shown.err
    [(first, second)] = short_members
    assert not np.array_equal(first.means[:10], second.means[:10])
    run = RunDir(Path("run"))
    assert (run.config().steps, run.config().ensemble, run.result()["steps"]) == (4, 2, 4)
    assert 0 < run.result()["num_splats"] <= len(first) + len(second)

    run.result_path.unlink()
    paths = checkpoint_paths(run.checkpoints_path)
    paths[-1].unlink()
    assert splat("train", "--resume", "run", "--device", "cpu").code == 0
    assert len(short_members) == 1, "the checkpoint has the joined splats"


def test_a_run_without_checkpoint_trains_its_members_again(splat, scene, short_members):
    assert splat("train", scene, "-o", "run", *QUICK, "--keep", 0).code == 0
    run = RunDir(Path("run"))
    before = run.ply_path(4).read_bytes()
    run.result_path.unlink()
    run.ply_path(4).unlink()
    assert splat("train", "--resume", "run", "--device", "cpu").code == 0
    assert len(short_members) == 2
    assert len(run.ply_path(4).read_bytes()) == len(before)

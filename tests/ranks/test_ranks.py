"""Runs give the same bits on any number of ranks, also after overflows, resumption and interruption."""

import shutil

import numpy as np
import pytest

from splat_cli.density.operations import hide_unseen
from splat_cli.errors import UsageError
from splat_cli.ranks.protocol import RANK_BLOCK, Share
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.state import capture_state, restore_state
from splat_cli.terminal.interrupt import Interrupted
from splat_cli.train import density_control
from tests.noise_trainer import launch_anew
from tests.ranks.runs import Callback, before_scores, bits, children, train
from tests.ranks.threads import trainers_of_two_ranks
from tests.small_scene import write_small_scene


def test_shares_are_all_splats():
    for num in (0, 1, RANK_BLOCK, 3 * RANK_BLOCK + 5, 8 * RANK_BLOCK):
        for size in (1, 2, 3):
            shares = [Share(rank, size) for rank in range(size)]
            assert sum(share.count(num) for share in shares) == num
            assert all(share.count(num) <= share.columns(num) for share in shares)


@pytest.mark.parametrize("gpus", [2, 4])
def test_any_number_of_ranks_gives_the_same_bits(alone, training, tmp_path, gpus):
    callback = Callback()
    run = train(training, tmp_path / "run", gpus, callback)
    assert set(callback.trainer.images._resident) == set(range(0, 9, gpus))
    assert run.result()["num_splats"] > 3 * RANK_BLOCK + 100
    assert bits(run) == bits(alone)
    assert not children()


@pytest.mark.parametrize(
    "changes",
    [
        {"strategy": "adc", "absgrad": True, "grad_threshold": 1e-4, "opacity_reset_interval": 16},
        {"strategy": "mcmc"},
        {"smooth_3d": 0.2, "free_space": 1.0, "visible_adam": True, "coarse_until": 0.4},
    ],
    ids=str,
)
def test_strategies_and_options_give_the_same_bits(training, tmp_path, changes):
    runs = [train(training, tmp_path / str(gpus), gpus, steps=32, keep=0, **changes) for gpus in (1, 2)]
    assert bits(runs[0], 32) == bits(runs[1], 32)


def test_unseen_splats_are_relocated_alike(training, tmp_path, monkeypatch):
    def record(*arguments):
        hidden.append(hide_unseen(*arguments))
        return hidden[-1]

    hidden = []
    monkeypatch.setattr(density_control, "hide_unseen", record)
    changes = {"strategy": "copies", "dropout": 0.0, "steps": 40, "densify_interval": 4, "noise_scale": 1e6, "keep": 0}
    runs = [train(training, tmp_path / str(gpus), gpus, **changes) for gpus in (1, 2)]
    assert bits(runs[0], 40) == bits(runs[1], 40)
    assert sum(map(len, hidden)) > 100


def test_overflow_on_one_rank_changes_no_bits(alone, training, tmp_path):
    def shrink(trainer):
        capacities.append(trainer.rasterizer.tiles.pair_capacity)
        trainer.rasterizer.resize_pairs(5000)

    def work(trainer):
        if not capacities:
            before_scores(trainer, lambda: shrink(trainer))
        shrink(trainer)

    capacities = []
    assert bits(train(training, tmp_path / "run", 2, Callback(work))) == bits(alone)
    assert len(capacities) > 5
    assert min(capacities) > 5000  # it grew again each time


def test_streamed_photographs_are_divided(training, tmp_path):
    """Each of two ranks shows 10 of 20 photographs and has 6 on its device at a time."""
    training.scene = write_small_scene(tmp_path / "scene", num_views=20)

    def watch(trainer):
        def upload(*photograph):
            upload_one(*photograph)
            shown.append(set(trainer.images.stream._resident))

        if not shown:
            shown.append(set(trainer.images.stream._resident))
            upload_one, trainer.images.stream._upload = trainer.images.stream._upload, upload

    shown, short = [], {"steps": 24, "keep": 0}
    streamed = train(training, tmp_path / "2", 2, Callback(watch), image_memory=8 * 3 * 40 * 30 / 2**30, **short)
    assert bits(streamed, 24) == bits(train(training, tmp_path / "1", 1, **short), 24)
    assert max(map(len, shown)) == 6
    assert set().union(*shown) == set(range(0, 20, 2))


def test_ranks_divide_the_views_to_score(training, tmp_path):
    def count(trainer):
        if not counted:
            raster = trainer.rasterizer
            score, raster.score = raster.score, lambda *arguments: (score(*arguments), counted.append(1))
            before_scores(trainer, lambda: counted.append(0))
            launch_anew(trainer)

    counted = []
    train(training, tmp_path / "run", 2, Callback(count), steps=12, keep=0)
    assert counted == [0, 1, 1, 1]  # the first, third and fifth of 5 views


@pytest.mark.parametrize("sorts", [False, True])
def test_moments_move_only_if_splats_are_sorted_or_removed(monkeypatch, sorts):
    monkeypatch.setattr(density_control, "SORT_INTERVAL", 10 if sorts else 1000)
    with trainers_of_two_ranks() as (leading, _):
        shared, moved = leading.sharding.shared, []
        exchange = shared._exchange
        shared._exchange = lambda planes, *rest: (moved.append(len(planes)), exchange(planes, *rest))
        leading.run_until(22)
        assert sorted(set(moved)) == ([3, 14] if sorts else [3])  # rows of colours; of all parameters


def test_no_rank_holds_all_splats():
    with trainers_of_two_ranks() as trainers:
        trainers[0].run_until(22)
        for trainer in trainers:
            assert trainer.model.num < 0.7 * trainer.num_splats
            assert trainer.model.splats.capacity < 0.7 * trainer.capacity
            assert len({planes.shape[1] for planes in trainer.model.planes().values()}) == 1


def test_splats_removed_before_scores_are_removed_on_all_ranks(training, tmp_path):
    def poison(trainer):
        if trainer.step == 8:
            trainer.model.splats.params[20, 5] = np.nan

    runs = [train(training, tmp_path / str(gpus), gpus, Callback(poison), steps=20, keep=0) for gpus in (1, 2)]
    assert runs[0].result()["removed_splats"] == 1
    assert bits(runs[0], 20) == bits(runs[1], 20)


def test_checkpoint_of_two_ranks_resumes_on_another_number(alone, training, tmp_path):
    run = train(training, tmp_path / "run", 2)
    for gpus in (1, 4):
        checkpoint_paths(run.checkpoints_path)[0].unlink()
        shutil.rmtree(run.ply_path(48).parent)
        run.result_path.unlink()
        training.resume(run.path, gpus=gpus)
        assert bits(run) == bits(alone)
    assert len([line for line in training.said if line == "Continuing from step 32"]) == 2


def test_restored_state_reaches_all_ranks():
    """Repeating steps from an earlier state gives the same bits."""
    splats = []
    with trainers_of_two_ranks() as (leading, _):
        leading.run_until(8)
        checkpoint = capture_state(leading)
        for _ in range(2):
            leading.run_until(16)
            splats.append(leading.splats.params.copy())
            restore_state(leading, checkpoint)
    np.testing.assert_array_equal(*splats)


def test_nonfinite_loss_on_one_rank_skips_the_batch_on_all(training, tmp_path):
    def poison(trainer):
        forward = trainer.loss.forward

        def poisoned(state, *rest):
            forward(state, *rest)
            state.write(loss_l1=np.nan)

        trainer.loss.forward = poisoned
        launch_anew(trainer)

    run = train(training, tmp_path / "run", 2, Callback(poison), steps=12, densify_start=20)
    assert run.result()["skipped_steps"] == 8


def test_skipped_updates_of_all_ranks_are_counted(training, tmp_path):
    huge = {"lr_scales": 1e4, "densify_start": 40, "steps": 12, "keep": 0}  # regularisers overflow at such scales
    counts = [train(training, tmp_path / str(gpus), gpus, **huge).result()["skipped_updates"] for gpus in (1, 2)]
    assert counts[0] == counts[1] > 0


def test_interrupted_run_is_saved_and_leaves_no_process(alone, training, tmp_path):
    def interrupt(trainer):
        if trainer.step >= 12:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="Interrupted after step"):
        train(training, tmp_path / "run", 2, Callback(interrupt))
    assert not children()
    assert bits(training.resume(tmp_path / "run")) == bits(alone)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"pose_opt": True}, "--pose-opt"),
        ({"color": "field"}, "--color field"),
        ({"background": "learned"}, "learned"),
        ({"appearance": "grid"}, "--appearance"),
        ({"robust": True}, "--robust"),
        ({"depth_weight": 1.0}, "--depth-weight"),
        ({"batch": 3}, "not a multiple"),
    ],
    ids=str,
)
def test_options_that_need_one_gpu_are_named(training, tmp_path, changes, named):
    with pytest.raises(UsageError, match=named):
        train(training, tmp_path / "run", 2, **changes)

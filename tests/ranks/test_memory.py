"""Device memory that runs out on one of two ranks: both go on with fewer splats. Ranks are threads of this process."""

import os
import socket
import threading
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.errors import OutOfMemory
from splat_cli.ranks.agreement import SharedMemoryError, all_or_none
from splat_cli.ranks.channel import Channel
from splat_cli.ranks.protocol import RankError
from splat_cli.ranks.share import RANK_BLOCK
from splat_cli.ranks.shared import SharedRanks, make_shared_memory
from splat_cli.run.plan import resolve_plan
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.initialization import initial_splats
from splat_cli.train.ranked.ranked_trainer import FollowingTrainer, LeadingTrainer
from tests.ranks.runs import Callback, bits, train
from tests.views import ring_of_views

NUM = 3 * RANK_BLOCK
SETTINGS = {
    "steps": 40, "batch": 2, "gpus": 2, "densify_start": 10, "densify_interval": 10, "max_splats": 8 * NUM,
    "splat_budget": 0, "growth_rate": 0.1, "sh_degree": 0, "deterministic": True,
}  # fmt: skip


@contextmanager
def _trainers(**changes):
    """Trainers of ranks 0 and 1; the latter follows."""

    def check():
        if has_ended.is_set():
            raise RankError("rank 0 has ended")

    def follow():
        with suppress(RankError):
            following.follow()

    files, ends, has_ended = make_shared_memory(2), socket.socketpair(), threading.Event()
    channels = [Channel(rank, 2, [Connection(end.detach())], check) for rank, end in enumerate(ends)]
    ranks = [SharedRanks(channel, files) for channel in channels]
    views, rng = ring_of_views(4), np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (view.height, view.width, 3), dtype=np.uint8) for view in views]
    images = ImageSet(views, pictures, [None] * 4, [])
    config = resolve_plan(load_config(None, {**SETTINGS, **changes}), views).config
    points = rng.normal(0, 0.5, (NUM, 3)).astype(np.float32), rng.integers(0, 255, (NUM, 3), dtype=np.uint8)
    leading, following = (
        make(
            ranks[rank], backend, config, initial_splats(backend, config, *points, np.random.default_rng(0))[0], images
        )
        for rank, (make, backend) in enumerate(
            zip((LeadingTrainer, FollowingTrainer), (open_backend("cpu", threads=1) for _ in range(2)), strict=True)
        )
    )
    assert ranks[1].listen()[0] == "train"
    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield leading, following
    finally:
        has_ended.set()
        ranks[0].close()
        thread.join()
        for file in files:
            os.close(file)


def _restrict(trainer, most):
    """From now on, memory is too scarce for more than `most` splats; what there is remains."""
    raster = trainer.rasterizer
    resize_splats, resize_pairs = raster.resize_splats, raster.resize_pairs

    def restricted_splats(capacity):
        if capacity > most:
            raise MemoryError
        resize_splats(capacity)

    def restricted_pairs(pairs):
        if len(raster.projection.depths) > most:
            raise MemoryError
        resize_pairs(pairs)

    raster.resize_splats, raster.resize_pairs = restricted_splats, restricted_pairs


def _check(trainers, step, most):
    """Both ranks went on with at most that many splats."""
    leading, following = trainers
    leading.collect()  # waits for the other
    assert leading.step == following.step == step
    assert len(leading.notices) == 1
    assert int(following.state.read()["num_splats"]) == leading.model.num <= most
    assert np.isfinite(leading.splats.params[:, : leading.model.num]).all()


@pytest.mark.parametrize("rank", [0, 1])
def test_pairs_that_do_not_fit_on_one_rank_cost_splats_on_both(rank):
    with _trainers() as trainers:
        trainers[0].run_until(8)
        assert trainers[0].model.num == NUM
        trainers[rank].rasterizer.resize_pairs(1000)  # so that they have to grow
        _restrict(trainers[rank], int(0.8 * NUM))
        trainers[0].run_until(24)
        _check(trainers, 24, 0.8 * NUM)
        assert trainers[0].notices[0].startswith("out of device memory at step 8: continuing with at most ")


def test_growth_that_does_not_fit_on_the_other_rank_ends():
    with _trainers(growth_rate=0.5, densify_start=5) as trainers:
        most = trainers[0].splats.capacity + 1000
        _restrict(trainers[1], most)
        trainers[0].run_until(40)
        _check(trainers, 40, most)


def test_rank_that_had_no_room_takes_its_share_later(alone, training, tmp_path):
    def scatter_too_much(trainer):
        if trainer.step >= 20 and not told:
            told.append(trainer.ranks.tell("scatter", trainer.step, trainer.model.num, 2**50, trainer.size))
            with pytest.raises(SharedMemoryError, match="GPU 1 of 2 is out of memory"):
                all_or_none(trainer.ranks, trainer.backend, lambda: None)
            trainer._num_scattered = -1

    told = []
    assert bits(train(training, tmp_path / "run", 2, Callback(scatter_too_much))) == bits(alone)
    assert told


def test_nothing_fits_on_the_other_rank():
    with _trainers() as (leading, following):
        leading.run_until(2)
        following.rasterizer.resize_pairs(1000)
        _restrict(following, 0)
        with pytest.raises(OutOfMemory, match="the device cannot hold .* use --max-splats"):
            leading.run_until(24)


def test_lack_of_memory_in_the_middle_of_scores_ends_the_run():
    def fail():
        raise MemoryError

    with _trainers() as (leading, _):
        leading.scorer._add_scores = fail
        with pytest.raises(OutOfMemory, match="GPU 0 of 2 is out of memory: use --max-splats"):
            leading.run_until(24)

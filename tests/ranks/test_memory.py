"""Device memory that runs out on one of two ranks: both go on with fewer splats. Ranks are threads of this process."""

import numpy as np
import pytest

from splat_cli.errors import OutOfMemory
from splat_cli.model.model import GRAIN, Model
from splat_cli.train.multi_gpu.shares import Geometry
from tests.gaussians.some_splats import some_splats
from tests.ranks.threads import NUM, trainers_of_two_ranks


def test_memory_cost_of_a_round_is_what_it_allocates(backend):
    """Geometry, and one more array of its parameters if they grow."""
    model = Model(backend, some_splats(1), 1, smooth_3d=True)
    planes = Geometry(model, 1, GRAIN).planes()
    taken = sum(array.nbytes for array in planes.values()) + planes["params"].nbytes
    assert taken == GRAIN * Geometry.round_cost(smooth_3d=True).per_splat


def _restrict(trainer, most):
    """From now on, memory suffices for at most `most` splats; existing buffers remain."""
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


def _rows(trainer):
    """Rows of a message between the ranks."""
    return trainer.sharding.views.exchange.rows


def _check(trainers, step, most):
    """Both ranks went on with at most this number of splats."""
    leading, following = trainers
    splats = leading.splats  # waits for the other rank
    assert leading.step == following.step == step
    assert len(leading.notices) == 1
    assert int(following.state.read()["num_splats"]) == leading.num_splats == splats.num <= most
    assert np.isfinite(splats.params).all()


@pytest.mark.parametrize("rank", [0, 1])
def test_pairs_beyond_one_ranks_memory_prune_on_both(rank):
    with trainers_of_two_ranks() as trainers:
        trainers[0].run_until(8)
        assert trainers[0].num_splats == NUM
        trainers[rank].rasterizer.resize_pairs(1000)  # buffers have to grow
        _restrict(trainers[rank], int(0.8 * NUM))
        trainers[0].run_until(24)
        _check(trainers, 24, 0.8 * NUM)
        assert trainers[0].notices[0].startswith("out of device memory at step 8: continuing with at most ")


@pytest.mark.parametrize("rank", [0, 1])
def test_messages_beyond_one_ranks_memory_prune_on_both(rank):
    def restricted():
        views.release()
        if views._rows_per_splat * views.share.columns(views.capacity) > most:
            raise MemoryError
        allocate()

    with trainers_of_two_ranks() as trainers:
        views = trainers[rank].sharding.views
        allocate, most = views.allocate, 5000
        views.allocate = restricted
        trainers[0].run_until(8)
        _check(trainers, 8, 0.9 * NUM)
        assert _rows(trainers[0]) == _rows(trainers[1]) <= most


def test_growth_that_does_not_fit_on_the_other_rank_ends():
    # Unseen splats would be removed after the last step, on rank 0 alone.
    with trainers_of_two_ranks(growth_rate=0.5, densify_start=5, relocate_unseen=False) as trainers:
        most = trainers[0].capacity + 1000
        _restrict(trainers[1], most)
        trainers[0].run_until(40)
        _check(trainers, 40, most)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_round_beyond_one_ranks_memory_leaves_the_splats_as_they_were(rank):
    def fail(*arguments):
        trainers[rank].density.strategy.refine = refine
        raise MemoryError

    with trainers_of_two_ranks() as trainers:
        refine, trainers[rank].density.strategy.refine = trainers[rank].density.strategy.refine, fail
        trainers[0].run_until(28)
        _check(trainers, 28, NUM)
        assert trainers[0].num_splats == NUM
        assert "pruned" not in trainers[0].notices[0]


def test_nothing_fits_on_the_other_rank():
    with trainers_of_two_ranks() as (leading, following):
        leading.run_until(2)
        following.rasterizer.resize_pairs(1000)
        _restrict(following, 0)
        with pytest.raises(OutOfMemory, match="the device cannot hold .* use --max-splats"):
            leading.run_until(24)


def test_out_of_memory_during_scores_ends_the_run():
    def fail(*arguments):
        raise MemoryError

    with trainers_of_two_ranks() as (leading, _):
        leading.rasterizer.score = fail
        with pytest.raises(OutOfMemory, match="GPU 0 of 2 is out of memory: use --max-splats"):
            leading.run_until(24)

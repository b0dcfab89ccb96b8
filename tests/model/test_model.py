"""Model: parameters, moments and statistics of a splat stay together when splats are added, removed and sorted."""

import numpy as np
import pytest

from splat_cli.gaussians.morton import curve_positions
from splat_cli.model.model import GRAIN, GROWTH, Model
from tests.gaussians.some_splats import some_splats

NUM = 50


@pytest.fixture(params=[False, True], ids=["plain", "smooth"])
def model(backend, request):
    """Every plane and the first coordinate hold the number of each splat."""
    model = Model(backend, some_splats(NUM), NUM, smooth_3d=request.param)
    for array in model.planes().values():
        array[0, :NUM] = backend.upload(np.arange(NUM, dtype=np.float32))
    return model


def _marks(model):
    """Number of each splat; all planes agree."""
    marks = [model.backend.download(array)[0, : model.num] for array in model.planes().values()]
    for mark in marks[1:]:
        np.testing.assert_array_equal(mark, marks[0])
    return marks[0].astype(int).tolist()


def _index(model, values):
    return model.backend.upload(np.asarray(values, np.int64))


def test_smooth_3d_allocates_sigmas(backend):
    for smooth_3d in (False, True):
        assert ("filters" in Model(backend, some_splats(3), 3, smooth_3d=smooth_3d).planes()) is smooth_3d


def test_planes_move_together(backend, model):
    mask = np.zeros(NUM, bool)
    mask[[0, 7, 49]] = True
    model.remove(backend.upload(mask))
    kept = [k for k in range(NUM) if k not in (0, 7, 49)]
    assert sorted(_marks(model)) == kept
    model.reserve(GRAIN + 1, 3 * GRAIN)
    model.sort_spatially()
    model.extend(1)
    model.rebuild(model.num)
    assert sorted(_marks(model)) == [0, *kept]
    assert {array.shape[1] for array in model.planes().values()} == {GRAIN}


def test_splats_are_sorted_along_the_curve(backend, model):
    model.sort_spatially()
    means = backend.download(model.splats.params)[:3, :NUM].T
    assert (np.diff(curve_positions(means).astype(np.int64)) >= 0).all()
    assert sorted(_marks(model)) == list(range(NUM))


def test_a_model_without_splats(backend, model):
    model.remove(backend.upload(np.ones(NUM, bool)))
    model.sort_spatially()
    assert model.num == 0
    assert model.splats.to_arrays().shN.shape == (0, 15, 3)


def test_new_splats_are_zero_in_every_plane(backend, model):
    for array in model.planes().values():
        array[...] = 1
    model.extend(3)
    assert model.num == NUM + 3
    for array in model.planes().values():
        values = backend.download(array)
        assert not values[:, NUM : NUM + 3].any()
        assert values[:, :NUM].all()
        assert values[:, NUM + 3 :].all()


def test_copies_have_fresh_moments_and_change_nothing_else(backend, model):
    before = {name: backend.download(array) for name, array in model.planes().items()}
    model.copy(_index(model, [5, 5]), _index(model, [8, 9]))
    before["params"][:, [8, 9]] = before["params"][:, [5, 5]]
    before["moments"][:, [8, 9]] = 0
    for name, array in model.planes().items():
        np.testing.assert_array_equal(backend.download(array), before[name])


def test_growing_keeps_contents(backend, model):
    before = {name: backend.download(array) for name, array in model.planes().items()}
    model.reserve(GRAIN, 10 * GRAIN)
    assert model.splats.capacity == GRAIN
    model.reserve(4 * GRAIN, 0)
    model.reserve(4 * GRAIN + 1, 10 * GRAIN)
    assert model.splats.capacity == 4 * GROWTH * GRAIN
    for name, array in model.planes().items():
        values = backend.download(array)
        np.testing.assert_array_equal(values[:, :NUM], before[name][:, :NUM])
        assert not values[:, NUM:].any()


def test_headroom_ends_at_the_limit(model):
    model.reserve(GRAIN + 1, GRAIN + 2)
    assert model.splats.capacity == 2 * GRAIN
    model.reserve(5 * GRAIN, 0)
    assert model.splats.capacity == 5 * GRAIN


def test_nonfinite_splats_are_removed(backend, model):
    model.splats.params[13, 5], model.splats.params[10, 6] = np.nan, np.inf
    assert model.remove_nonfinite() == 2
    assert sorted(_marks(model)) == [k for k in range(NUM) if k not in (5, 6)]
    assert model.remove_nonfinite() == 0


def test_statistics_are_cleared(backend, model):
    model.clear_stats()
    assert not backend.download(model.stats).any()


def test_planes_are_restored_from_the_host(backend, model):
    planes = {name: backend.download(array)[:, :NUM] for name, array in model.planes().items()}
    other = Model(backend, some_splats(3), 3, smooth_3d=model.splats.smooth_3d_sigmas is not None)
    other.load_planes(planes, 2 * GRAIN)
    assert (other.num, other.splats.capacity) == (NUM, 2 * GRAIN)
    for name, array in other.planes().items():
        np.testing.assert_array_equal(backend.download(array)[:, :NUM], planes[name])

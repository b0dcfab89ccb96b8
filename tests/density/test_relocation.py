"""MCMC and the error-guided strategies: growth at a rate, and relocation of dead splats."""

import numpy as np
import pytest

from tests.density.models import NUM, host, some_model
from tests.density.rounds import BLAMED, config_of, refined
from tests.reference import density as reference

CHAINS = ["mcmc", "copies", "splits"]  # keep the number of splats and move dead ones


def relatives(before, model):
    """Mask of splats with the colour BLAMED, which identifies them."""
    return np.flatnonzero((host(model)[11:14] == before[11:14, [BLAMED]]).all(axis=0))


@pytest.mark.parametrize("name", CHAINS)
def test_growth(backend, name):
    model = refined(some_model(backend), name)
    growth = config_of(name).growth_rate
    expected = 1 if name == "splits" else int(growth * NUM)  # only one splat can be split
    assert model.num - NUM == expected


@pytest.mark.parametrize("name", ["copies", "splits"])
def test_growth_goes_where_the_error_is(backend, name):
    model = some_model(backend)
    before = host(model)
    after = host(refined(model, name))
    family = relatives(before, model)
    assert len(family) >= 2
    assert sorted({*family, *range(NUM)}) == list(range(model.num))
    others = np.setdiff1d(np.arange(NUM), family)
    np.testing.assert_array_equal(after[:, others], before[:, others])


def test_growth_by_opacity_leaves_out_the_dead(backend):
    model = some_model(backend, dead=300)
    before = host(model)
    after = host(refined(model, "mcmc"))
    colours = {tuple(colour) for colour in before[11:14, :100].T}
    assert {tuple(colour) for colour in after[11:14].T} <= colours


@pytest.mark.parametrize("name", CHAINS)
def test_relocation(backend, name):
    """Every dead splat moves to a live one; with splits, one moves to the only splat with an error."""
    dead = 1 if name == "splits" else 9
    model = some_model(backend, dead=dead)
    before = host(model)
    after = host(refined(model, name, growth_rate=0.0))
    assert model.num == NUM
    assert (reference.sigmoid(after[10]) > 0.005).all()
    parents = [np.flatnonzero((before[11:14] == after[11:14, [k]]).all(axis=0))[0] for k in range(NUM - dead, NUM)]
    assert max(parents) < NUM - dead
    if name != "mcmc":
        assert set(parents) == {BLAMED}
    assert not host(model, "moments")[:, [*parents, *range(NUM - dead, NUM)]].any()


@pytest.mark.parametrize("name", ["copies", "splits"])
def test_a_parent_and_its_copies_look_like_the_parent(backend, name):
    model = some_model(backend, dead=1)
    before = host(model).astype(np.float64)
    after = host(refined(model, name, growth_rate=0.0))
    if name == "copies":
        expected = [reference.relocated(before[:, [BLAMED]], np.array([2]), 0.005)] * 2
    else:
        expected = reference.halves(before[:, [BLAMED]])
    np.testing.assert_allclose(after[:, [BLAMED]], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after[:, [NUM - 1]], expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CHAINS)
def test_splats_below_prune_opacity_are_dead(backend, name):
    """A splat is dead if its opacity is below `prune_opacity`."""
    model = some_model(backend)
    model.splats.params[10, 11] = float(reference.logit(0.02))
    before = host(model)
    after = host(refined(model, name, prune_opacity=0.01, growth_rate=0.0))
    np.testing.assert_array_equal(after, before)
    refined(model, name, prune_opacity=0.03, growth_rate=0.0)
    assert (host(model)[11:14, 11] != before[11:14, 11]).any()


def test_nothing_moves_if_all_are_dead(backend):
    model = some_model(backend, dead=NUM)
    before = host(model)
    np.testing.assert_array_equal(host(refined(model, "mcmc", growth_rate=0.0)), before)


def test_a_transparent_splat_with_all_the_error_is_not_copied_into_invisible_ones(backend):
    model = some_model(backend, dead=300)
    model.splats.params[10, BLAMED] = np.log(0.06 / 0.94)  # opacity 0.06: enough for two splats of 0.03
    before = host(model)
    after = host(refined(model, "copies"))
    opacities = 1 / (1 + np.exp(-after[10, relatives(before, model)].astype(np.float64)))
    assert len(opacities) <= 3
    assert (opacities > 0.015).all()

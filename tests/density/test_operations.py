"""cuda_src/density/refine.cu against tests/reference/density.py, and properties of the operations."""

import numpy as np
import pytest

from splat_cli.density.operations import limit_scales, relocate, reset_opacities, split_long_axis, split_random
from tests.density.models import NUM, host, index, some_model
from tests.reference import density as reference

NEAR = {"rtol": 2e-5, "atol": 2e-6}
PARENTS = np.array([3, 100, 7, 399])
SLOTS = np.array([10, 400, 401, 20])
LOG_SCALES = np.array(
    [[-1, -2, -3], [-2, -1, -3], [-2, -3, -1], [-3, -2, -1]]
).T  # of the parents: each axis is longest


@pytest.fixture
def model(backend):
    model = some_model(backend, capacity=NUM + 50)
    model.extend(10)
    for planes in (model.splats.params, model.moments):
        planes[3:6, PARENTS] = backend.upload(LOG_SCALES.astype(np.float32))
    return model


def _changed(before, after):
    return np.flatnonzero((before != after).any(axis=0)).tolist()


def _moments_are_fresh(model, index, others):
    moments = host(model, "moments")
    assert not moments[:, index].any()
    np.testing.assert_array_equal(moments[:, others], host(model)[: len(moments), others])


@pytest.mark.parametrize("copies", [1, 2, 10, 50, 60, 149])  # 149: more parents than threads of a block
def test_relocation(backend, model, copies):
    before = host(model)
    parents = np.concatenate([np.repeat([3, 100], copies), [7]])
    slots = np.arange(110, 110 + len(parents))
    relocate(model, index(backend, parents), index(backend, slots), min_opacity=0.005)
    after = host(model)
    expected = reference.relocated(before[:, [3, 100, 7]], np.array([copies + 1, copies + 1, 2]), 0.005)
    np.testing.assert_allclose(after[:, [3, 100, 7]], expected, **NEAR)
    np.testing.assert_array_equal(after[:, slots], after[:, parents])
    assert _changed(before, after) == sorted({3, 100, 7, *slots})
    _moments_are_fresh(model, [3, 100, 7, *slots], [0, 1, 101])


def test_copies_together_are_as_opaque_as_their_parent(backend, model):
    before = reference.sigmoid(host(model)[10, 5])
    relocate(model, index(backend, [5, 5]), index(backend, [8, 9]), min_opacity=0.005)
    assert 1 - (1 - reference.sigmoid(host(model)[10, 5])) ** 3 == pytest.approx(before, rel=1e-5)


@pytest.mark.parametrize(("raw", "expected"), [(-7.0, 0.005), (40.0, None)])
def test_relocation_of_extreme_opacities(backend, model, raw, expected):
    model.splats.params[10, 5] = raw
    relocate(model, index(backend, [5] * 30), index(backend, np.arange(300, 330)), min_opacity=0.005)
    after = host(model)[:, 5]
    assert np.isfinite(after).all()
    if expected:
        assert reference.sigmoid(after[10]) == pytest.approx(expected)


def test_halves(backend, model):
    """Initial splats have axes of equal length: the first one is split."""
    model.splats.params[3:6, [3, 399]] = backend.upload(np.array([[-1, -3], [-1, -1], [-1, -1]], np.float32))
    before = host(model)
    split_long_axis(model, index(backend, PARENTS), index(backend, SLOTS))
    after = host(model)
    one, other = reference.halves(before[:, PARENTS])
    np.testing.assert_allclose(after[:, PARENTS], one, **NEAR)
    np.testing.assert_allclose(after[:, SLOTS], other, **NEAR)
    assert _changed(before, after) == sorted([*PARENTS, *SLOTS])
    _moments_are_fresh(model, [*PARENTS, *SLOTS], [0, 4, 398])


def test_halves_lie_on_the_longest_axis_to_either_side(backend, model):
    before = host(model)[:, PARENTS]
    split_long_axis(model, index(backend, PARENTS), index(backend, SLOTS))
    one, other = host(model)[:, PARENTS], host(model)[:, SLOTS]
    np.testing.assert_allclose((one[:3] + other[:3]) / 2, before[:3], atol=1e-6)
    offset = (one[:3] - before[:3]).T
    values, vectors = np.linalg.eigh(reference.covariances(before.astype(np.float64)))
    along = np.abs((vectors[:, :, 2] * offset).sum(1))
    np.testing.assert_allclose(along, np.linalg.norm(offset, axis=1), rtol=1e-4)
    np.testing.assert_allclose(along, 0.5 * np.sqrt(values[:, 2]), rtol=1e-4)


def test_children(backend, model):
    before = host(model)
    split_random(model, index(backend, PARENTS), index(backend, SLOTS), np.random.default_rng(5))
    after = host(model)
    normals = np.random.default_rng(5).standard_normal((3, 8), np.float32).astype(np.float64)
    np.testing.assert_allclose(after[:, PARENTS], reference.children(before[:, PARENTS], normals[:, :4]), **NEAR)
    np.testing.assert_allclose(after[:, SLOTS], reference.children(before[:, PARENTS], normals[:, 4:]), **NEAR)
    assert _changed(before, after) == sorted([*PARENTS, *SLOTS])
    _moments_are_fresh(model, [*PARENTS, *SLOTS], [0, 4, 398])


def test_random_children_have_their_parents_distribution(backend):
    num = 4000
    model = some_model(backend, num=2 * num, capacity=2 * num)
    model.splats.params[...] = model.splats.params[:, :1].copy()
    parent = host(model)[:, :1]
    split_random(
        model, index(backend, np.arange(num)), index(backend, np.arange(num, 2 * num)), np.random.default_rng(2)
    )
    found, expected = np.cov(host(model)[:3]), reference.covariances(parent.astype(np.float64))[0]
    np.testing.assert_allclose(found, expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("operation", ["relocate", "split_long_axis", "split_random"])
def test_nothing_to_do(backend, model, operation):
    before, none = host(model), index(backend, [])
    if operation == "relocate":
        relocate(model, none, none, min_opacity=0.005)
    elif operation == "split_long_axis":
        split_long_axis(model, none, none)
    else:
        split_random(model, none, none, np.random.default_rng(0))
    np.testing.assert_array_equal(host(model), before)


def test_opacities_are_reset(model):
    model.splats.params[10, 3] = -6
    before = host(model)
    reset_opacities(model, 0.01)
    after = host(model)
    np.testing.assert_allclose(reference.sigmoid(after[10]), np.minimum(reference.sigmoid(before[10]), 0.01), rtol=1e-5)
    assert after[10, 3] == -6
    others = np.arange(len(after)) != 10
    np.testing.assert_array_equal(after[others], before[others])
    moments = host(model, "moments")
    assert not moments[10].any()
    np.testing.assert_array_equal(
        np.delete(moments, 10, axis=0)[:, :NUM], np.delete(before, 10, axis=0)[: len(moments) - 1, :NUM]
    )


def test_the_column_after_the_last_splat_does_not_change(model):
    """It may be the first column of the next row of parameters."""
    model.splats.params[3:6, model.num], model.splats.params[10, model.num] = -20, 5
    limit_scales(model, 0.03)
    reset_opacities(model, 0.01)
    after = model.backend.download(model.splats.params)[:, model.num]
    assert (after[3:6].tolist(), after[10]) == ([-20] * 3, 5)


def test_no_axis_is_shorter_than_the_limit(model):
    model.splats.params[[2, 6]] = -9  # rows before and after those of scales, which stay
    before = host(model)
    limit_scales(model, 0.03)
    expected = before.copy()
    expected[3:6] = np.maximum(before[3:6], np.float32(np.log(0.03)))
    assert (expected != before).any()
    np.testing.assert_array_equal(host(model), expected)


def test_nonfinite_numbers_are_kept_for_removal(backend, model):
    model.splats.params[3, 0] = model.splats.params[10, 1] = np.nan
    limit_scales(model, 0.03)
    reset_opacities(model, 0.01)
    assert model.remove_nonfinite() == 2

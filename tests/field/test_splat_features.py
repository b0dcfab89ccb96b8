"""Adam on the features of splats against the reference, and features in planes of splats."""

import dataclasses

import numpy as np
import pytest

from splat_cli.density.operations import split_long_axis
from splat_cli.device import Backend
from splat_cli.field.color_field import ColorField, FieldShape, field_bounds
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.parameters import adam_bias
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.model.model import Model
from splat_cli.render.iter_state import LEARNING_RATES, IterState
from tests.compare import BACKWARD, Comparison
from tests.field_scenes import SHAPE
from tests.gaussians.some_splats import some_splats
from tests.reference import adam as reference

NUM, SIZE, STEP, RATE = 300, 5, 7, 0.03


def splats_with_features() -> SplatArrays:
    features = np.random.default_rng(1).normal(size=(NUM, SIZE)).astype(np.float32)
    return dataclasses.replace(some_splats(NUM, degree=1), features=features)


@pytest.mark.parametrize("dense", [False, True], ids=["visible", "dense"])
def test_adam_on_features(backend: Backend, comparison: Comparison, dense: bool) -> None:
    """Features of all splats except frozen ones, or of splats with a gradient, change; other rows do not."""
    model = Model(backend, splats_with_features(), NUM, num_frozen=4, num_features=SIZE)
    shape: FieldShape = dataclasses.replace(SHAPE, features=SIZE)
    means = splats_with_features().means
    field = ColorField(backend, shape, field_bounds(means), 1, model.splats.capacity, np.random.default_rng(0))
    coloring = FieldColoring(field)
    coloring.resize(model.splats.capacity)
    rng = np.random.default_rng(2)
    gradients = np.where(rng.random((SIZE, NUM)) < 0.5, rng.normal(size=(SIZE, NUM)), 0).astype(np.float32)
    coloring.d_features[:, :NUM] = backend.upload(gradients)
    rates = [RATE * (name == "field_features") for name in LEARNING_RATES]
    state = IterState(backend, num_splats=NUM, num_frozen=4, lr=rates, **adam_bias(STEP))
    before = backend.download(model.splats.params)[:, :NUM].astype(float)
    coloring.update(model, state, None, dense)
    after = backend.download(model.splats.params)[:, :NUM].astype(float)
    begin = model.splats.first_feature
    np.testing.assert_array_equal(after[:begin], before[:begin])
    zeros = np.zeros((SIZE, NUM))
    expected = reference.step(before[begin:], gradients, zeros, zeros, np.full(SIZE, RATE), STEP)[0]
    moves = (gradients != 0) & (np.arange(NUM) >= 4)  # dense updates of zero moments without a gradient are 0
    comparison.check(
        "step_features",
        f"features, dense {dense}",
        (after - before)[begin:],
        np.where(moves, expected - before[begin:], 0),
        BACKWARD,
    )
    assert not backend.download(coloring.d_features)[:, 4:NUM].any()
    coloring.update(model, state, None, dense)
    again = backend.download(model.splats.params)[begin:, :NUM]
    assert (again != after[begin:]).any() == dense


def test_features_are_the_last_rows_behind_missing_coefficients(backend: Backend) -> None:
    arrays = splats_with_features()
    splats = Splats.from_arrays(backend, arrays, sh_degree=2)
    assert (splats.sh_degree, splats.num_features, len(splats.params)) == (2, SIZE, 14 + 24 + SIZE)
    back = splats.to_arrays()
    assert back.features is not None
    np.testing.assert_array_equal(back.features, arrays.features)
    np.testing.assert_array_equal(back.shN[:, :3], arrays.shN)
    assert not back.shN[:, 3:].any()


def test_splats_inherit_features(backend: Backend) -> None:
    arrays = splats_with_features()
    model = Model(backend, arrays, NUM + 10, num_features=SIZE)
    model.extend(2)
    split_long_axis(model, backend.upload(np.array([5, 8])), backend.upload(np.array([NUM, NUM + 1])))
    model.sort_spatially()
    features = model.splats.to_arrays().features
    assert features is not None
    assert arrays.features is not None
    expected = np.concatenate([arrays.features, arrays.features[[5, 8]]])
    np.testing.assert_array_equal(np.sort(features, axis=0), np.sort(expected, axis=0))

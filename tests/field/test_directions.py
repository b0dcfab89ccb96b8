"""The encoding of directions against its reference, which tests/reference checks by central differences."""

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.field.hash_grid import backward_directions, encode_directions
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import sh

NUM, SPARE = 300, 20


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_directions(backend: Backend, comparison: Comparison, degree: int) -> None:
    rng = np.random.default_rng(degree)
    directions = rng.normal(size=(NUM, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    d_values = rng.normal(size=(NUM, degree**2))
    num_rows = backend.upload(np.array([NUM], np.uint32))

    def planes(values: np.ndarray) -> np.ndarray:
        return backend.upload(np.pad(values.T, ((0, 0), (0, SPARE))).astype(np.float32))

    features, d_directions = planes(np.zeros((NUM, degree**2))), planes(np.zeros((NUM, 3)))
    encode_directions(backend, planes(directions), num_rows, degree, features)
    backward_directions(backend, planes(directions), num_rows, degree, planes(d_values), d_directions)
    expected = np.einsum("nkd,nk->nd", sh.basis_gradient(directions, degree - 1), d_values)
    comparison.check(
        "sh_encode", "features", backend.download(features)[:, :NUM].T, sh.basis(directions, degree - 1), FORWARD
    )
    comparison.check(
        "sh_encode_backward", "d directions", backend.download(d_directions)[:, :NUM].T, expected, BACKWARD
    )

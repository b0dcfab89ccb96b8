"""The encoding of directions against its reference, which tests/reference checks by independent facts."""

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.field.hash_grid import encode_directions
from tests.compare import FORWARD, Comparison
from tests.reference import sh

NUM, SPARE = 300, 20


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_directions(backend: Backend, comparison: Comparison, degree: int) -> None:
    directions = np.random.default_rng(degree).normal(size=(NUM, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    planes = backend.upload(np.pad(directions.T, ((0, 0), (0, SPARE))).astype(np.float32))
    features = backend.xp.zeros((degree**2, NUM + SPARE), "float32")
    encode_directions(backend, planes, backend.upload(np.array([NUM], np.uint32)), degree, features)
    expected = sh.basis(directions, degree - 1)
    comparison.check("sh_encode", "features", backend.download(features)[:, :NUM].T, expected, FORWARD)

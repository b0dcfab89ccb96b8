"""What strategies do to splats."""

import numpy as np

from splat_cli.density.operations import (
    relocation_params,
    sample_distinct,
    sample_weighted,
    split_long_axis,
    split_random,
)


def _columns(rng, num=50):
    """Raw parameters [14, num] with one axis clearly the longest."""
    columns = rng.normal(size=(14, num)).astype(np.float32)
    columns[3:6] = rng.normal(-3, 0.1, (3, num))
    columns[3 + rng.integers(0, 3, num), np.arange(num)] = -1
    return columns


def _covariances(columns):
    w, x, y, z = columns[6:10] / np.linalg.norm(columns[6:10], axis=0)
    rotation = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]).transpose(2, 0, 1)  # fmt: skip
    scaled = rotation * np.exp(columns[3:6]).T[:, None, :]
    return scaled @ scaled.transpose(0, 2, 1)


def test_halves_lie_on_the_longest_axis_to_either_side():
    columns = _columns(np.random.default_rng(0))
    one, other = split_long_axis(np, columns)
    np.testing.assert_allclose((one[:3] + other[:3]) / 2, columns[:3], atol=1e-6)
    offset = (one[:3] - columns[:3]).T
    values, vectors = np.linalg.eigh(_covariances(columns))
    along = np.abs((vectors[:, :, 2] * offset).sum(1))
    np.testing.assert_allclose(along, np.linalg.norm(offset, axis=1), rtol=1e-4)
    np.testing.assert_allclose(along, 0.5 * np.sqrt(values[:, 2]), rtol=1e-4)
    assert (np.exp(one[3:6]).max(axis=0) < np.exp(columns[3:6]).max(axis=0)).all()


def test_random_children_have_their_parents_distribution():
    columns = np.repeat(_columns(np.random.default_rng(1), 1), 20_000, axis=1)
    children = split_random(np, columns, np.random.default_rng(2))
    found = np.cov(children[:3])
    np.testing.assert_allclose(found, _covariances(columns[:, :1])[0], atol=0.03 * np.abs(found).max())
    np.testing.assert_allclose(children[3:6], np.tile(columns[3:6], 2) - np.log(1.6), rtol=1e-5)


def test_copies_together_are_as_opaque_as_the_one_they_replace():
    opacities = np.array([0.1, 0.5, 0.9, 0.99])
    copies = np.array([2.0, 3.0, 5.0, 51.0])
    new, log_scales = relocation_params(np, opacities, np.zeros((3, 4)), copies)
    np.testing.assert_allclose(1 - (1 - new) ** copies, opacities, rtol=1e-6)
    assert np.isfinite(log_scales).all()
    single, unchanged = relocation_params(np, opacities, np.zeros((3, 4)), np.ones(4))
    np.testing.assert_allclose(single, opacities)
    np.testing.assert_allclose(unchanged, 0, atol=1e-6)


def test_draws_follow_their_weights():
    weights = np.array([0.0, 1.0, 3.0, 0.0], np.float32)
    counts = np.bincount(sample_weighted(np, weights, 40_000, np.random.default_rng(0)), minlength=4)
    assert counts[0] == counts[3] == 0
    assert abs(counts[2] / counts[1] - 3) < 0.15


def test_distinct_draws_never_repeat_and_leave_out_weight_zero():
    weights = np.array([0, 1, 1, 1, 100, 0], np.float32)
    first = []
    for seed in range(200):
        chosen = sample_distinct(np, weights, 3, np.random.default_rng(seed))
        assert len(set(chosen.tolist())) == 3
        assert not {0, 5} & set(chosen.tolist())
        first.append(4 in chosen[:1])
    assert np.mean(first) > 0.9
    assert len(sample_distinct(np, weights, 10, np.random.default_rng(0))) == 4

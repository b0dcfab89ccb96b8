"""Isolation: neighbours of splats on surfaces, in the distance, on their own, and at the ends of needles."""

import numpy as np

from splat_cli.eval.cleaning import MANY, isolation
from splat_cli.gaussians.arrays import SplatArrays


def splats_at(means: np.ndarray, sizes: np.ndarray) -> SplatArrays:
    """Splats with axes `sizes` [N, 3] along x, y, z."""
    n, quats = len(means), np.tile(np.float32([1, 0, 0, 0]), (len(means), 1))
    zeros = np.zeros((n, 3), np.float32)
    return SplatArrays(
        means.astype(np.float32),
        np.log(sizes).astype(np.float32),
        quats,
        np.zeros(n, np.float32),
        zeros,
        np.zeros((n, 0, 3), np.float32),
    )


def wall(size: float = 0.02, num: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """A wall of 2 x 2 at z = 0: positions and sizes of its splats."""
    x, y = np.meshgrid(np.linspace(-1, 1, num), np.linspace(-1, 1, num))
    return np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.tile([size, size, 1e-3], (num * num, 1))


def with_wall(*others: tuple[list[float], list[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Isolation of a wall and of other splats (position, sizes), which come last."""
    means, sizes = wall()
    positions, axes = (np.array(values).reshape(-1, 3) for values in zip(*others, strict=True))
    near, at_ends = isolation(splats_at(np.concatenate([means, positions]), np.concatenate([sizes, axes])))
    assert near[: len(means)].min() >= 3
    assert (at_ends[: len(means)] == MANY).all()
    return near[len(means) :], at_ends[len(means) :]


def test_splats_off_the_wall_are_alone() -> None:
    """Two stand in front of the wall, one of them with a companion; a tiny one lies on it."""
    small = [0.01] * 3
    near, _ = with_wall(([0, 0, 0.7], small), ([0.5, 0.5, 0.7], small), ([0.5, 0.51, 0.7], small), ([0, 0, 0], small))
    assert near[0] == 0
    assert near[1] == near[2] == 1
    assert near[3] > 20


def test_large_splats_in_the_distance_have_neighbors() -> None:
    """A sky: splats as far from each other as they are large."""
    x, y = np.meshgrid(np.linspace(-90, 90, 10), np.linspace(-90, 90, 10))
    near, _ = with_wall(*(([a, b, 100.0], [20.0, 20.0, 1.0]) for a, b in zip(x.ravel(), y.ravel(), strict=True)))
    assert near.min() >= 3


def test_ends_of_needles() -> None:
    """On the wall, out of it, beyond its left and right edges; a long axis is no needle if the second is long, too."""
    on, out, flat = [0.2, 0.002, 0.001], [0.001, 0.002, 0.2], [0.001, 0.1, 0.2]
    _, at_ends = with_wall(([0, 0, 0], on), ([0, 0, 0], out), ([0, 0, 0], flat), ([-0.9, 0, 0], on), ([0.9, 0, 0], on))
    assert at_ends[0] > 10
    assert at_ends[1] == 0
    assert at_ends[2] == MANY
    assert at_ends[3] == at_ends[4] == 0


def test_positions_beyond_any_grid_and_no_splats() -> None:
    near, _ = with_wall(([1e30, 0, 0], [0.01] * 3), ([0, 0, -3e37], [0.01] * 3))
    assert near.max() <= 0
    for found in isolation(splats_at(np.zeros((0, 3)), np.zeros((0, 3)))):
        assert found.shape == (0,)

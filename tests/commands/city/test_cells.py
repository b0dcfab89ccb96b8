"""The split of the ground: every place is in one cell, and no cell has too many splats."""

import dataclasses

import numpy as np
import pytest

from splat_cli.commands.city.plan import MARGIN, MIN_SPLATS, Cell, cell_numbers, ground_axes, rounds_of, split_cells


@pytest.fixture(scope="module")
def places():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(-20, 20, (3000, 2)) * [2, 1], rng.normal([30, 5], 1, (2000, 2))])


def test_every_place_is_in_one_cell(places):
    cells = split_cells(places, 1500)
    borders = [[side for side in (*cell.low, *cell.high) if np.isfinite(side)] for cell in cells]
    corners = np.array([[x, y] for row in borders for x in row for y in row])  # a border belongs to one side
    for tried in (places, corners, np.array([[1e9, -1e9]])):
        assert (np.array([cell.holds(tried) for cell in cells]).sum(axis=0) == 1).all()
    numbers = cell_numbers(cells, places)
    assert all((numbers[cell.holds(places)] == number).all() for number, cell in enumerate(cells))
    assert (cell_numbers(cells, np.full((2, 2), np.inf)) == len(cells)).all()


def test_no_cell_trains_too_many(places):
    cells = split_cells(places, 1500)
    assert all(cell.trains(places).sum() <= 1500 for cell in cells)
    assert len(cells) < 16
    assert len(split_cells(places, 5000)) == 1
    assert len(split_cells(places, 500)) > len(cells)


def test_the_longer_side_is_split_at_the_median():
    places = np.random.default_rng(2).uniform(0, 1, (4000, 2)) * [1, 9]
    first, second = split_cells(places, 3000)
    assert first.high[1] == second.low[1] == np.median(places[:, 1])
    assert first.high[0] == np.inf


def test_margins_are_a_share_of_the_side():
    places = np.random.default_rng(1).uniform(0, 10, (4000, 2)) * [2, 1]
    left, right = split_cells(places, 3000)
    np.testing.assert_allclose((left.margins, right.margins), [[MARGIN * 10, MARGIN * 10]] * 2, rtol=0.05)
    border = left.high[0]
    near = np.array([[border + 0.9 * left.margins[0], 5], [border + 1.1 * left.margins[0], 5]])
    assert (left.trains(near).tolist(), left.holds(near).tolist()) == ([True, False], [False, False])


def test_places_that_cannot_be_divided():
    assert len(split_cells(np.zeros((1000, 2)), 10)) == 1
    assert len(split_cells(np.random.default_rng(0).normal(size=(2 * MIN_SPLATS - 1, 2)), 10)) == 1


def test_neighbours_are_trained_one_after_the_other():
    inf, margins = np.inf, (1.0, 1.0)
    square = [
        Cell((-inf, -inf), (0, 0.3), margins),
        Cell((0, -inf), (inf, 0), margins),
        Cell((-inf, 0.3), (0, inf), margins),
        Cell((0, 0), (inf, inf), margins),
    ]
    assert rounds_of(square) == [0, 1, 1, 0]  # cells across the corner touch along only 0.3
    row = [Cell((10.0 * i, 0), (10.0 * i + 10, 10), (2, 2)) for i in range(5)]
    assert rounds_of(row) == [0, 1, 0, 1, 0]
    assert rounds_of(row[::2]) == [0, 0, 0]


def test_axes_lie_in_the_ground():
    up = np.array([0.6, -0.8, 0])
    axes = ground_axes(up)
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(axes @ up, 0, atol=1e-12)


def test_cells_meet_where_their_margins_overlap():
    row = [Cell((10.0 * i, -np.inf), (10.0 * i + 10, np.inf), (2, 2)) for i in range(3)]
    assert row[0].meets(row[1])
    assert row[1].meets(row[0])
    assert not row[0].meets(row[2])
    wide = dataclasses.replace(row[2], margins=(9, 9))
    assert row[0].meets(wide)
    assert wide.meets(row[0])


def test_outermost_sides_have_no_end():
    cell = Cell((-np.inf, 0), (1, np.inf), (0.5, 0.5))
    places = np.array([[-1e9, 0], [0, 1e9], [1, 0], [1.4, -0.4], [1.6, 0]])
    assert cell.holds(places).tolist() == [True, True, False, False, False]
    assert cell.trains(places).tolist() == [True, True, True, True, False]

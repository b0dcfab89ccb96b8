"""plan.json of a city: written, read again, and refused if damaged."""

import json

import numpy as np
import pytest

from splat_cli.commands.city.plan import Cell, CellPlan, CityPlan, read_plan, write_plan
from splat_cli.errors import FormatError


@pytest.fixture
def plan():
    """Two adjacent cells without borders on their other sides."""
    left = Cell((-np.inf, -np.inf), (1.5, np.inf), (0.5, 0.25))
    right = Cell((1.5, -np.inf), (np.inf, np.inf), (0.5, 0.25))
    axes = np.array([[1.0, 0, 0], [0, 0.6, 0.8]])
    return CityPlan(axes, 1.7, [CellPlan(left, 0, ("a.jpg", "b.jpg")), CellPlan(right, 1, ("c.jpg",))])


@pytest.mark.parametrize(
    "change",
    [
        {"cells": []},
        {"growth": float("nan")},
        {"growth": 0},
        {"format": 1},
        {"round": -1},
        {"views": []},
        {"axes": [[1e999, 0, 0], [0, 0, 0]]},
        {"round": float("inf")},
    ],
)
def test_a_plan_with_impossible_numbers_is_refused(plan, tmp_path, change):
    write_plan(tmp_path, plan)
    path = tmp_path / "cells" / "plan.json"
    content = json.loads(path.read_text())
    (content["cells"][0] if {"round", "views"} & set(change) else content).update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match="the cells are planned again"):
        read_plan(tmp_path)


def test_a_cell_waits_for_those_of_earlier_rounds_that_it_meets():
    cells = [Cell((10.0 * i, -np.inf), (10.0 * i + 10, np.inf), (2, 2)) for i in range(5)]
    plans = [CellPlan(cell, number, ("a.jpg",)) for cell, number in zip(cells, (0, 1, 0, 2, 0), strict=True)]
    plan = CityPlan(np.eye(2, 3), 1.0, plans)
    assert [plan.before(i) for i in range(5)] == [[], [0, 2], [], [2, 4], []]


def test_plans_are_read_as_written(plan, tmp_path):
    write_plan(tmp_path, plan)
    again = read_plan(tmp_path)
    assert (again.cells, again.growth) == (plan.cells, plan.growth)
    np.testing.assert_array_equal(again.axes, plan.axes)
    assert read_plan(tmp_path / "nowhere") is None
    path = tmp_path / "cells" / "plan.json"
    path.write_text(path.read_text().replace("round", "turn"))
    with pytest.raises(FormatError, match="is damaged"):
        read_plan(tmp_path)

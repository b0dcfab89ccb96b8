"""Cells: a k-d split of the ground plane into half-open rectangles with about the same number of splats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.scene.trajectories.capture import perpendicular

MARGIN = 0.2
"""Width of the margin that is trained around a cell, relative to the cell's side."""
MIN_SPLATS = 100
"""Cells with fewer coarse splats are not split."""
_STRAYS = (1, 99)
"""Percentiles of positions that bound the ground, which sets the margins of the (infinite) outermost cells."""


def ground_axes(up: np.ndarray) -> np.ndarray:
    """Two perpendicular horizontal axes, float64 [2, 3]."""
    east = perpendicular(up)
    return np.stack([east, np.cross(up, east)])


@dataclass(frozen=True)
class Cell:
    """The half-open rectangle low <= place < high on the ground; outermost sides are infinite.

    margins: width of the margin on each axis.
    """

    low: tuple[float, float]
    high: tuple[float, float]
    margins: tuple[float, float]

    def holds(self, places: np.ndarray) -> Any:
        """Mask of the places, float64 [N, 2], in the cell. Each place is in exactly one cell."""
        return _within(places, self.low, self.high)

    def trains(self, places: np.ndarray) -> Any:
        """Mask of the places in the cell or its margin."""
        return _within(places, *self._outer())

    def meets(self, other: Cell) -> bool:
        """Whether the cells overlap, margins included."""
        (low, high), (other_low, other_high) = self._outer(), other._outer()
        return bool((np.maximum(low, other_low) < np.minimum(high, other_high)).all())

    def _outer(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest sides of the margin."""
        margins = np.array(self.margins)
        return self.low - margins, self.high + margins


def split_cells(places: np.ndarray, capacity: float) -> list[Cell]:
    """Cells with at most `capacity` of the places, float64 [N, 2], margins included.

    Splits at the median of the longer side. Cells with fewer than 2 MIN_SPLATS places may have more than `capacity`.
    """
    ground = np.percentile(places, _STRAYS, axis=0)
    return _split(places, np.full(2, -np.inf), np.full(2, np.inf), ground, capacity)


def cell_numbers(cells: Sequence[Cell], places: np.ndarray) -> np.ndarray:
    """Index of the cell of each place, int64 [N]; len(cells) for places outside all cells."""
    numbers = np.full(len(places), len(cells))
    for number, cell in enumerate(cells):
        numbers[cell.holds(places)] = number
    return numbers


def rounds_of(cells: Sequence[Cell]) -> list[int]:
    """Round of each cell, from 0, by greedy colouring.

    Cells with a common border are in different rounds, so that the later one fits to the earlier one. Cells that share
    only a corner may be in the same round.
    """
    rounds: list[int] = []
    for number, cell in enumerate(cells):
        taken = {rounds[other] for other in range(number) if _have_border(cell, cells[other])}
        rounds.append(next(one for one in range(number + 1) if one not in taken))
    return rounds


def _have_border(one: Cell, other: Cell) -> bool:
    """Whether two cells touch along more than their margins."""
    low, high = np.maximum(one.low, other.low), np.minimum(one.high, other.high)
    margins = np.minimum(one.margins, other.margins)
    return bool((high >= low).all() and (high - low > margins).any())


def _split(places: np.ndarray, low: np.ndarray, high: np.ndarray, ground: np.ndarray, capacity: float) -> list[Cell]:
    first, last = np.maximum(low, ground[0]), np.minimum(high, ground[1])
    cell = Cell(_pair(low), _pair(high), _pair(MARGIN * np.maximum(last - first, 0)))
    held = places[cell.holds(places)]
    if cell.trains(places).sum() <= capacity or len(held) < 2 * MIN_SPLATS:
        return [cell]
    axis = int(np.argmax(last - first))
    border = float(np.median(held[:, axis]))
    if not (held[:, axis] < border).any():
        return [cell]  # few places differ
    inner = np.arange(2) == axis
    left = _split(places, low, np.where(inner, border, high), ground, capacity)
    return left + _split(places, np.where(inner, border, low), high, ground, capacity)


def _within(places: np.ndarray, low: Any, high: Any) -> Any:
    """Mask of the places with low <= place < high. Compares one column at a time, which is faster."""
    x, y = places.T
    return (low[0] <= x) & (x < high[0]) & (low[1] <= y) & (y < high[1])


def _pair(values: np.ndarray) -> tuple[float, float]:
    return float(values[0]), float(values[1])

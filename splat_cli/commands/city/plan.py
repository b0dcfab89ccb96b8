"""The plan of a city's cells: rectangles on the ground, their photographs, and the order of their runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.commands.city.coarse_views import CoarseViews, covered_shares, views_of_cells
from splat_cli.device import Backend
from splat_cli.errors import FormatError, SceneError, UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import count_splats, read_ply
from splat_cli.io.files import fingerprint, replacing
from splat_cli.processes.threads import run_in_threads
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_json
from splat_cli.scene.trajectories.focus import perpendicular, up_direction
from splat_cli.terminal.console import Display

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


_FORMAT = 2
"""Cells of plans without this number trained no large splats."""


@dataclass(frozen=True)
class CellPlan:
    """A cell with its photographs by name. round: it is trained after overlapping cells of lower rounds."""

    cell: Cell
    round: int
    views: tuple[str, ...]


@dataclass(frozen=True)
class CityPlan:
    """The cells that photographs show. axes: ground plane, float64 [2, 3]. growth: factor on the number of splats.

    coarse: fingerprint of the coarse splats that were divided; empty in plans of earlier versions.
    """

    axes: np.ndarray
    growth: float
    cells: list[CellPlan]
    coarse: str = ""

    def require_coarse(self, coarse: RunDir) -> None:
        """UsageError if the coarse run was trained again since: with other splats, its cells do not fit together."""
        ply = last_ply(coarse)
        with named_damage(coarse.path):
            count_splats(ply)
        if self.coarse and self.coarse != fingerprint(ply):
            cells = _path(coarse.path.parent).parent
            raise UsageError(
                f"{cells} was trained within another coarse run than {coarse.path}: restore that run, or remove "
                f"{cells}, and the same command trains its cells again"
            )

    def ground(self, means: np.ndarray) -> np.ndarray:
        """Positions [N, 3] on the ground, float64 [N, 2]."""
        places: np.ndarray = means.astype(np.float64) @ self.axes.T
        return places

    def filled(self, places: np.ndarray, numbers: Sequence[int]) -> np.ndarray:
        """Mask of the places [N, 2] in these cells."""
        return np.logical_or.reduce(
            [self.cells[i].cell.holds(places) for i in numbers] or [np.zeros(len(places), bool)]
        )

    def before(self, number: int) -> list[int]:
        """Numbers of the cells of earlier rounds whose trained splats may lie in a cell or its margin."""
        own = self.cells[number]
        return [i for i, cell in enumerate(self.cells) if cell.round < own.round and cell.cell.meets(own.cell)]


@dataclass(frozen=True)
class CellFiles:
    """Files of a cell, or of the last pass, in the folder of a city."""

    folder: Path

    @classmethod
    def of(cls, out: Path, number: int | None) -> CellFiles:
        """Files of cell `number` in the folder `out` of a city; None: of the last pass."""
        return cls(out / "cells" / ("last" if number is None else f"{number:03d}"))

    @property
    def start(self) -> Path:
        """Splats to train: coarse ones of the cell and of its margin; written last."""
        return self.folder / "start.ply"

    @property
    def frozen(self) -> Path:
        """Splats that are not trained: those around the cell that its photographs show."""
        return self.folder / "frozen.ply"

    @property
    def scene(self) -> Path:
        """The cell's pictures, at the poses of the coarse run."""
        return self.folder / "scene"

    @property
    def run(self) -> RunDir:
        """Run folder of the cell."""
        return RunDir(self.folder / "run")


def last_ply(run: RunDir) -> Path:
    """The splats that a finished run of the city has saved last. UsageError if they are gone."""
    steps = run.saved_steps()
    if not steps:
        raise UsageError(f"{run.path} has lost its splats: remove that folder, and the same command trains it again")
    return run.ply_path(steps[-1])


def last_splats(run: RunDir, first: int = 0) -> SplatArrays:
    """The splats of `last_ply`, without the `first` ones. UsageError if the file is damaged."""
    with named_damage(run.path):
        return read_ply(last_ply(run), first)


@contextmanager
def named_damage(folder: Path) -> Iterator[None]:
    """Context for reading files of a stage. If one is damaged, UsageError names the stage's folder."""
    try:
        yield
    except FormatError as error:
        reason = str(error).partition(";")[0].partition(": ")[0]
        raise UsageError(f"{reason}: remove {folder}, and the same command trains it again") from None


def read_plan(out: Path) -> CityPlan | None:
    """The plan written by `write_plan`, None if missing. FormatError."""
    path = _path(out)
    if not path.is_file():
        return None
    try:
        content = read_json(path)
        cells = [_cell_plan(entry) for entry in content["cells"]]
        axes = np.array(content["axes"], np.float64).reshape(2, 3)
        plan = CityPlan(axes, float(content["growth"]), cells, str(content.get("coarse", "")))
        if content.get("format") != _FORMAT:
            raise ValueError("written by an earlier version")
        _check(plan)
        return plan
    except (KeyError, TypeError, ValueError, OverflowError, FormatError) as error:
        reason = f"{path} is damaged ({error})"
        raise FormatError(f"{reason}: remove {path.parent}, and the cells are planned again") from None


def write_plan(out: Path, plan: CityPlan) -> None:
    """Write OUT/cells/plan.json."""
    content = {
        **vars(plan),
        "format": _FORMAT,
        "axes": plan.axes.tolist(),
        "cells": [_entry(cell) for cell in plan.cells],
    }
    with replacing(_path(out), durable=True) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _check(plan: CityPlan) -> None:
    """ValueError if the plan has invalid numbers."""
    if not plan.cells or not all(cell.views for cell in plan.cells):
        raise ValueError("cells or their photographs are missing")
    if not (np.isfinite(plan.axes).all() and 1 <= plan.growth < np.inf):
        raise ValueError("axes or growth is out of range")
    if any(cell.round < 0 or not np.isfinite(cell.cell.margins).all() for cell in plan.cells):
        raise ValueError("a round or margin is out of range")


def _path(out: Path) -> Path:
    return out / "cells" / "plan.json"


def _entry(plan: CellPlan) -> dict[str, Any]:
    """The plan as JSON; infinite sides are null."""
    sides = {name: [None if np.isinf(side) else side for side in pair] for name, pair in vars(plan.cell).items()}
    return {**vars(plan), "cell": sides}


def _cell_plan(entry: dict[str, Any]) -> CellPlan:
    def pair(name: str, infinite: float = np.nan) -> tuple[float, float]:
        first, second = (infinite if side is None else float(side) for side in entry["cell"][name])
        return first, second

    cell = Cell(pair("low", -np.inf), pair("high", np.inf), pair("margins"))
    return CellPlan(cell, int(entry["round"]), tuple(map(str, entry["views"])))


_THREADS = 2
"""Threads that add up weights while the device renders the next view."""


def divide(
    coarse: RunDir, out: Path, cell_splats: int, max_splats: int, backend: Backend, display: Display
) -> CityPlan:
    """Split the scene into cells of up to `cell_splats` (`max_splats` in total) with photographs; writes the plan.

    Cells that no photograph shows are left out: their coarse splats are kept.
    """
    splats, views = last_splats(coarse), coarse.views("train")
    axes = ground_axes(up_direction(views, splats.means))
    growth = max(max_splats / len(splats), 1.0)
    ground = splats.means @ axes.T
    cells = split_cells(ground, cell_splats / growth)
    pictures = CoarseViews(backend, splats, views, (0, 0, 0))
    numbers = cell_numbers(cells, ground)
    shares = _shares(pictures, numbers, len(cells), display)
    found = [
        (cell, tuple(views[i].name for i in chosen)) for cell, chosen in zip(cells, views_of_cells(shares), strict=True)
    ]
    photographed = [(cell, names) for cell, names in found if names]
    if not photographed:
        raise SceneError(f"no photograph shows any of the splats of {coarse.path}: look at that run")
    rounds = rounds_of([cell for cell, _ in photographed])
    plans = [CellPlan(cell, number, names) for (cell, names), number in zip(photographed, rounds, strict=True)]
    plan = CityPlan(axes, growth, plans, fingerprint(last_ply(coarse)))
    write_plan(out, plan)
    return plan


def _shares(pictures: CoarseViews, numbers: np.ndarray, num_cells: int, display: Display) -> np.ndarray:
    """Share of each picture that each cell covers, float64 [views, cells]. numbers: see `covered_shares`."""
    shares = np.zeros((len(pictures.views), num_cells))

    def sums() -> Iterator[Callable[[], np.ndarray]]:
        for index, view in enumerate(pictures.views):
            yield partial(covered_shares, pictures.weights(index), numbers, num_cells, view)

    with display.counting("views", len(shares)) as count:
        for index, share in enumerate(run_in_threads(sums(), _THREADS)):
            shares[index] = share
            count(1)
    return shares

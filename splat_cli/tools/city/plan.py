"""The plan of a city's cells: rectangles on the ground, and the numbers of their runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import FormatError
from splat_cli.files import replacing
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_json
from splat_cli.tools.city.cells import Cell

_REACH = 2.0
"""Standard deviations that a splat must not reach beyond the margin of a cell."""


@dataclass(frozen=True)
class CellPlan:
    """A cell with the numbers of its run: frozen splats, splats to train at most, photographs."""

    cell: Cell
    num_frozen: int
    max_splats: int
    num_views: int


@dataclass(frozen=True)
class CityPlan:
    """Cells of a city that are photographed. axes: float64 [2, 3], of the ground. max_size: of splats that cells train.

    Larger splats reach into several cells, which would all correct the same error: they stay as the coarse run left
    them.
    """

    axes: np.ndarray
    max_size: float
    cells: list[CellPlan]

    def ground(self, means: np.ndarray) -> np.ndarray:
        """Positions [N, 3] on the ground, float64 [N, 2]."""
        places: np.ndarray = means.astype(np.float64) @ self.axes.T
        return places

    def places(self, splats: SplatArrays) -> np.ndarray:
        """Positions of coarse splats on the ground, float64 [N, 2]; infinite for those that no cell trains."""
        places = self.ground(splats.means)
        places[np.exp(splats.log_scales.max(axis=1)) > self.max_size] = np.inf
        return places


@dataclass(frozen=True)
class CellFiles:
    """Files of a cell in the folder of a city."""

    folder: Path

    @classmethod
    def of(cls, out: Path, number: int) -> CellFiles:
        return cls(out / "cells" / f"{number:03d}")

    @property
    def start(self) -> Path:
        """Coarse splats of the cell and its margin."""
        return self.folder / "start.ply"

    @property
    def frozen(self) -> Path:
        """Other coarse splats that its photographs show."""
        return self.folder / "frozen.ply"

    @property
    def scene(self) -> Path:
        """Its pictures, at the poses of the coarse run."""
        return self.folder / "scene"

    @property
    def run(self) -> RunDir:
        return RunDir(self.folder / "run")


def read_plan(out: Path) -> CityPlan | None:
    """The plan that `write_plan` has written, or None. FormatError."""
    path = _path(out)
    if not path.is_file():
        return None
    content = read_json(path)
    try:
        cells = [_cell_plan(entry) for entry in content["cells"]]
        return CityPlan(np.array(content["axes"], np.float64).reshape(2, 3), float(content["max_size"]), cells)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{path} is not as it was written ({error})"
        raise FormatError(f"{reason}: remove {path.parent}, and the cells are planned again") from None


def write_plan(out: Path, plan: CityPlan) -> None:
    """Write the plan; that it is there says that the files of all cells are."""
    content = {"axes": plan.axes.tolist(), "max_size": plan.max_size, "cells": [_entry(cell) for cell in plan.cells]}
    with replacing(_path(out), durable=True) as beside:
        beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def max_size(cells: list[Cell]) -> float:
    """Longest standard deviation of a splat that stays within the margins of all cells."""
    return min(min(cell.margins) for cell in cells) / _REACH


def _path(out: Path) -> Path:
    return out / "cells" / "plan.json"


def _entry(plan: CellPlan) -> dict[str, Any]:
    """The plan as JSON; sides that are infinite are null."""
    sides = {name: [None if np.isinf(side) else side for side in pair] for name, pair in vars(plan.cell).items()}
    return {**vars(plan), "cell": sides}


def _cell_plan(entry: dict[str, Any]) -> CellPlan:
    def pair(name: str, infinite: float = np.nan) -> tuple[float, float]:
        first, second = (infinite if side is None else float(side) for side in entry["cell"][name])
        return first, second

    cell = Cell(pair("low", -np.inf), pair("high", np.inf), pair("margins"))
    return CellPlan(cell, int(entry["num_frozen"]), int(entry["max_splats"]), int(entry["num_views"]))

"""The cells of a city, from its coarse run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from splat_cli.commands.city.cells import cell_numbers, ground_axes, rounds_of, split_cells
from splat_cli.commands.city.coarse_views import CoarseViews, covered_shares, views_of_cells
from splat_cli.commands.city.plan import CellPlan, CityPlan, last_ply, trainable_places, write_plan
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.gaussians.ply import read_ply
from splat_cli.processes.threads import run_in_threads
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.trajectories.focus import up_direction
from splat_cli.terminal.console import Display

_THREADS = 2
"""Threads that add up weights while the device renders the next view."""


def divide(
    coarse: RunDir, out: Path, cell_splats: int, max_splats: int, backend: Backend, display: Display
) -> CityPlan:
    """Split the scene into cells of up to `cell_splats` of `max_splats` splats, with photographs; writes the plan.

    Cells that no photograph shows are left out: their coarse splats are kept.
    """
    splats, views = read_ply(last_ply(coarse)), coarse.views("train")
    axes = ground_axes(up_direction(views, splats.means))
    growth = max(max_splats / len(splats), 1.0)
    ground = splats.means @ axes.T
    cells = split_cells(ground, cell_splats / growth)
    pictures = CoarseViews(backend, splats, views, (0, 0, 0))
    numbers = cell_numbers(cells, trainable_places(ground, splats, cells))
    shares = _shares(pictures, numbers, len(cells), display)
    found = [
        (cell, tuple(views[i].name for i in chosen)) for cell, chosen in zip(cells, views_of_cells(shares), strict=True)
    ]
    photographed = [(cell, names) for cell, names in found if names]
    if not photographed:
        raise SceneError(f"no photograph shows any of the splats of {coarse.path}: look at that run")
    rounds = rounds_of([cell for cell, _ in photographed])
    plans = [CellPlan(cell, number, names) for (cell, names), number in zip(photographed, rounds, strict=True)]
    plan = CityPlan(axes, growth, plans)
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

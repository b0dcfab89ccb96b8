"""The cells of a city, from its coarse run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from splat_cli.console import Display
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.gaussians.ply import read_ply
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.trajectories.focus import up_direction
from splat_cli.tools.city.cells import cell_numbers, ground_axes, rounds_of, split_cells
from splat_cli.tools.city.coarse_views import CoarseViews, covered_shares, views_of_cells
from splat_cli.tools.city.plan import CellPlan, CityPlan, last_ply, max_scale, write_plan


def divide(
    coarse: RunDir, out: Path, cell_splats: int, max_splats: int, backend: Backend, display: Display
) -> CityPlan:
    """Split the scene into cells of up to `cell_splats` of `max_splats` splats, with their photographs; writes that.

    Cells that no photograph shows are left out: their coarse splats are kept.
    """
    splats, views = read_ply(last_ply(coarse)), coarse.views("train")
    axes = ground_axes(up_direction(views, splats.means))
    growth = max(max_splats / len(splats), 1.0)
    cells = split_cells(splats.means @ axes.T, cell_splats / growth)
    whole = CityPlan(axes, growth, max_scale(cells), [])
    places, pictures = whole.places(splats), CoarseViews(backend, splats, views, (0, 0, 0))
    numbers = cell_numbers(cells, places)
    shares = np.zeros((len(views), len(cells)))
    with display.counting("views", len(views)) as count:
        for index, view in enumerate(views):
            shares[index] = covered_shares(pictures.weights(index), numbers, len(cells), view)
            count(1)
    found = [
        (cell, tuple(views[i].name for i in chosen)) for cell, chosen in zip(cells, views_of_cells(shares), strict=True)
    ]
    photographed = [(cell, names) for cell, names in found if names]
    if not photographed:
        raise SceneError(f"no photograph shows any of the splats of {coarse.path}: look at that run")
    rounds = rounds_of([cell for cell, _ in photographed])
    plans = [CellPlan(cell, number, names) for (cell, names), number in zip(photographed, rounds, strict=True)]
    plan = CityPlan(axes, growth, whole.max_scale, plans)
    write_plan(out, plan)
    return plan

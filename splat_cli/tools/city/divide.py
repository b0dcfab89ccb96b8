"""From a coarse run to the cells of a city and the files that their runs start from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from splat_cli.console import Display
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.run.storage.load_images import load_run_images
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.colmap.write import write_model
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.scene.trajectories.focus import up_direction
from splat_cli.scene.view import View
from splat_cli.tools.city.cells import cell_numbers, ground_axes, split_cells
from splat_cli.tools.city.coarse_views import CoarseViews, covered_shares, is_shown, picture_of_cell, views_of_cells
from splat_cli.tools.city.plan import CellFiles, CellPlan, CityPlan, max_size, write_plan

_QUALITY = 98


def divide(
    coarse: RunDir, out: Path, cell_splats: int, max_splats: int, backend: Backend, display: Display
) -> CityPlan:
    """Split the scene of the coarse run into cells of up to `cell_splats` of `max_splats` splats; write their files."""
    splats = read_ply(coarse.ply_path(coarse.saved_steps()[-1]))
    photographs = load_run_images(coarse, coarse.views("train"), None, backend, display)
    axes = ground_axes(up_direction(photographs.views, splats.means))
    factor = max(max_splats / len(splats), 1.0)
    cells = split_cells(splats.means @ axes.T, cell_splats / factor)
    whole = CityPlan(axes, max_size(cells), [])
    places = whole.places(splats)
    views = CoarseViews(backend, splats, photographs.views, coarse.background())
    with display.counting("views", 2 * len(views.views)) as count:
        numbers = cell_numbers(cells, places)
        shares = [covered_shares(_counted(views, i, count), numbers, len(cells), view)
                  for i, view in enumerate(views.views)]  # fmt: skip
        chosen = views_of_cells(np.array(shares))
        if not any(map(len, chosen)):
            raise SceneError(f"no photograph shows any of the splats of {coarse.path}: look at that run")
        photographed = [
            (cell, set(indices.tolist())) for cell, indices in zip(cells, chosen, strict=True) if len(indices)
        ]
        inside = np.array([cell.trains(places) for cell, _ in photographed])
        files = [CellFiles.of(out, number) for number in range(len(photographed))]
        shown = _write_pictures(views, photographs, inside, [indices for _, indices in photographed], files, count)
    plans = []
    for (cell, indices), trained, seen, own in zip(photographed, inside, shown, files, strict=True):
        frozen = seen & ~trained
        _write_start(own, splats, trained, frozen, [views.views[i] for i in sorted(indices)])
        plans.append(CellPlan(cell, int(frozen.sum()), round(factor * trained.sum()), len(indices)))
    plan = CityPlan(axes, whole.max_size, plans)
    write_plan(out, plan)
    return plan


def _counted(views: CoarseViews, index: int, count: Callable[[int], object]) -> np.ndarray:
    weights = views.weights(index)
    count(1)
    return weights


def _write_pictures(
    views: CoarseViews, photographs: ImageSet, inside: np.ndarray, chosen: list[set[int]], files: list[CellFiles],
    count: Callable[[int], object],
) -> np.ndarray:  # fmt: skip
    """Write the pictures of all cells; returns which splats these show, bool [cells, N]."""
    shown = np.zeros_like(inside)
    for index, view in enumerate(views.views):
        image, mask = photographs.images[index], photographs.masks[index]
        seen, coarse = is_shown(views.weights(index)), views.picture(index)
        for cell in (number for number, indices in enumerate(chosen) if index in indices):
            picture = picture_of_cell(image, coarse, views.coverage(inside[cell]))
            _save(files[cell].scene / "images" / _file(view), picture)
            if mask is not None:
                _save(files[cell].scene / "masks" / f"{_file(view)}.png", mask)
            shown[cell] |= seen
        count(1)
    return shown


def _write_start(
    files: CellFiles, splats: SplatArrays, trained: np.ndarray, frozen: np.ndarray, views: list[View]
) -> None:
    write_ply(files.start, splats.select(trained))
    if frozen.any():
        write_ply(files.frozen, splats.select(frozen))
    cameras, images = {}, []
    for number, view in enumerate(views, 1):
        cameras[number] = Camera(number, "PINHOLE", view.width, view.height, (view.fx, view.fy, view.cx, view.cy))
        quat = tuple(quat_from_matrix(view.w2c[:3, :3]).tolist())
        images.append(Image(number, number, _file(view), quat, tuple(view.w2c[:3, 3].tolist())))
    means = splats.means[trained]
    write_model(files.scene / "sparse" / "0", Model(cameras, images, means, np.full(means.shape, 128, np.uint8)))


def _file(view: View) -> str:
    """Name of the view's picture: that of the photograph, if it is a JPEG."""
    return view.name if view.name.lower().endswith((".jpg", ".jpeg")) else f"{view.name}.jpg"


def _save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Picture.fromarray(pixels).save(path, quality=_QUALITY, subsampling=0)

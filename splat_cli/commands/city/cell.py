"""The run of a cell: its input files (splats of the cell, splats around it, pictures) and its training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture

from splat_cli.commands.city.city import read_city
from splat_cli.commands.city.coarse_views import CoarseViews, is_shown, picture_of_cell, without_exposure
from splat_cli.commands.city.plan import CellFiles, CityPlan, last_splats, named_damage, read_plan
from splat_cli.device import Backend, num_cores
from splat_cli.errors import SceneError, UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.selection import merged
from splat_cli.gaussians.ply import count_splats, write_ply
from splat_cli.io.files import remove_leftovers
from splat_cli.io.folder_lock import locked_folder
from splat_cli.processes.threads import run_in_threads
from splat_cli.run.checkpoints.checkpointer import newest_checkpoint
from splat_cli.run.device import open_device
from splat_cli.run.resume import Resumption, free_memory, plan_resumption
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.load_images import load_run_images
from splat_cli.run.storage.result import RunSummary, read_result
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.colmap.write import write_model
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer

_QUALITY = 98  # quality of JPEG files


def train_cell(out: Path, number: int, device: str, display: Display, timer: PhaseTimer) -> RunSummary:
    """Prepare a cell of the city in `out`, and train it. The run is locked from the start. UsageError."""
    city, plan, files = read_city(out, device), read_plan(out), CellFiles.of(out, number)
    if plan is None or number not in range(len(plan.cells)):
        raise UsageError(f"{out} has no cell {number}: `splat city` plans cells and starts this command for each")
    with locked_folder(files.run.path, make=True):
        remove_leftovers(files.folder)
        if files.run.result():
            return read_result(files.run)
        backend = open_device(device, city.config, display)
        with timer("preparation"):
            prepare_cell(city.coarse, out, plan, number, backend, display)
            free_memory(backend)  # training plans with the free memory
        start = Resumption(files.scene, city.cell_config(plan, number), None)
        if is_run(files.run.path):
            start = plan_resumption(files.run, files.scene, {}, display)
        return train_scene(start.scene, files.run, start.config, backend, display, start.checkpoint, timer=timer)


def prepare_cell(coarse: RunDir, out: Path, plan: CityPlan, number: int, backend: Backend, display: Display) -> None:
    """Write the files of a cell unless they exist. Reads its photographs and the earlier trained cells.

    UsageError if its photographs are gone.
    """
    files, cell, before = CellFiles.of(out, number), plan.cells[number], plan.before(number)
    if files.start.is_file():
        return
    splats = last_splats(coarse)
    places = plan.places(splats)
    around = cell.cell.trains(places)
    names = set(cell.views)
    views = [view for view in coarse.views("train") if view.name in names]
    try:
        photographs = load_run_images(coarse, views, None, backend, display)
    except SceneError as error:
        gone = f"all photographs of cell {number} are missing ({error})"
        raise UsageError(f"{gone}: restore them, or remove {out / 'cells'}") from None
    photographs = _with_one_exposure(photographs, coarse, display)
    pictures = CoarseViews(backend, splats, photographs.views, coarse.background())
    shown = _write_pictures(files, photographs, pictures, around)
    done = [own_splats(out, plan, other) for other in before]
    near = [part.select(cell.cell.trains(plan.ground(part.means))) for part in done]
    frozen = merged([splats.select(shown & ~around), *near])
    if len(frozen):
        write_ply(files.frozen, frozen)
    start = splats.select(around & ~plan.filled(places, before))
    _write_model(files, photographs.views, start.means)
    write_ply(files.start, start, durable=True)


def _write_pictures(files: CellFiles, photographs: ImageSet, coarse: CoarseViews, around: np.ndarray) -> np.ndarray:
    """Write the pictures of a cell. around: mask of its splats, bool [N]. Returns a mask of the visible ones."""
    shown, inside = np.zeros(len(around), bool), coarse.mark(around)

    def writes() -> Iterator[Callable[[], None]]:
        for index in range(len(photographs.views)):
            picture, coverage, weights = coarse.render(index, inside)
            np.logical_or(shown, is_shown(weights), out=shown)
            yield partial(_write_picture, files, photographs, index, picture, coverage)

    for _ in run_in_threads(writes(), num_cores()):
        pass
    return shown


def _write_picture(
    files: CellFiles, photographs: ImageSet, index: int, coarse: np.ndarray, coverage: np.ndarray
) -> None:
    view, mask = photographs.views[index], photographs.masks[index]
    _save(files.scene / "images" / _file(view), picture_of_cell(photographs.images[index], coarse, coverage))
    if mask is not None:
        _save(files.scene / "masks" / f"{_file(view)}.png", mask)


def own_splats(out: Path, plan: CityPlan, number: int) -> SplatArrays:
    """The trained splats of a cell that lie in it or in an earlier cell.

    Splats in an earlier cell fill gaps of that cell: they were trained around its frozen splats. No splat is in two
    cells.
    """
    files = CellFiles.of(out, number)
    trained = last_splats(files.run)
    with named_damage(files.folder):
        num_frozen = count_splats(files.frozen) if files.frozen.is_file() else 0
    own = trained.select(np.arange(num_frozen, len(trained)))
    places = plan.ground(own.means)
    return own.select(plan.cells[number].cell.holds(places) | plan.filled(places, plan.before(number)))


class _Corrected(Sequence[np.ndarray]):
    """Photographs without their exposures, corrected on access."""

    def __init__(self, images: Sequence[np.ndarray], changes: list[np.ndarray]) -> None:
        self._images, self._changes = images, changes

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: Any) -> Any:
        return without_exposure(self._images[index], self._changes[index])


def _with_one_exposure(photographs: ImageSet, coarse: RunDir, display: Display) -> ImageSet:
    """The photographs, without exposures if the coarse run trained any. UsageError if its exposures are gone."""
    if coarse.config().appearance != "exposure":
        return photographs
    checkpoint = newest_checkpoint(coarse.checkpoints_path, display.warn)
    if checkpoint is None:
        raise UsageError(f"{coarse.path} has no checkpoint with its exposures: train it again with --keep 1")
    changes = dict(zip(checkpoint.metadata["views"], checkpoint.arrays["exposures"][:, 0], strict=True))
    found = [changes[view.name].reshape(3, 4) for view in photographs.views]
    return photographs._replace(images=_Corrected(photographs.images, found))


def _write_model(files: CellFiles, views: list[View], points: np.ndarray) -> None:
    cameras, images = {}, []
    for number, view in enumerate(views, 1):
        cameras[number] = Camera(number, "PINHOLE", view.width, view.height, (view.fx, view.fy, view.cx, view.cy))
        quat = tuple(quat_from_matrix(view.w2c[:3, :3]).tolist())
        images.append(Image(number, number, _file(view), quat, tuple(view.w2c[:3, 3].tolist())))
    write_model(files.scene / "sparse" / "0", Model(cameras, images, points, np.full(points.shape, 128, np.uint8)))


def _file(view: View) -> str:
    """Name of the view's picture: the photograph's name, if that is a JPEG."""
    return view.name if view.name.lower().endswith((".jpg", ".jpeg")) else f"{view.name}.jpg"


def _save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Picture.fromarray(pixels).save(path, quality=_QUALITY, subsampling=0)

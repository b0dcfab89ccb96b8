"""The run of a cell: its input files (splats of the cell, splats around it, pictures) and its training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture

from splat_cli.commands.city.city import City
from splat_cli.commands.city.coarse_views import CoarseViews, is_shown, picture_of_cell, without_exposure
from splat_cli.commands.city.plan import CellFiles, CityPlan, last_splats, named_damage, read_plan
from splat_cli.config import TrainConfig
from splat_cli.data.image_budget import image_budget
from splat_cli.device import Backend, num_cores
from splat_cli.errors import SceneError, UsageError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.edits import merged
from splat_cli.gaussians.ply import count_splats, write_ply
from splat_cli.io.files import remove_leftovers
from splat_cli.io.folder_lock import locked_folder
from splat_cli.processes.threads import run_in_threads
from splat_cli.run.checkpoints.checkpointer import newest_checkpoint
from splat_cli.run.plan import resolve_plan
from splat_cli.run.ranks import followers_ahead
from splat_cli.run.resume import Resumption, free_memory, plan_resumption
from splat_cli.run.setup.memory_plan import MIN_SPLATS, plan_memory
from splat_cli.run.storage.find_run import is_run, locked_run, new_locked_run
from splat_cli.run.storage.load_run import load_run_images
from splat_cli.run.storage.result import RunSummary, read_result
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer

_QUALITY = 98  # quality of JPEG files
_KEPT = 0.5  # fraction of the splats with which the last pass starts: docs/optimizations/several_gpus.md


def train_cell(
    city: City, number: int | None, backend: Backend, gpus: int, display: Display, timer: PhaseTimer
) -> RunSummary:
    """Prepare a cell of a city, and train it. The run is locked from the start. UsageError.

    number: None for the last pass. gpus: number of GPUs that train it; one if some splats are frozen.
    """
    plan, files = read_plan(city.out), CellFiles.of(city.out, number)
    if plan is None or number not in (None, *range(len(plan.cells))):
        raise UsageError(f"{city.out} has no cell {number}: `splat city` plans cells and starts this command for each")
    with locked_folder(files.run.path, make=True):
        remove_leftovers(files.folder)
        if files.run.result():
            return read_result(files.run)
        with followers_ahead(gpus, backend):
            with timer("preparation"):
                if not files.start.is_file():
                    if number is None:
                        prepare_last_pass(city, plan, backend, display)
                    else:
                        prepare_cell(city.coarse, city.out, plan, number, backend, display)
                free_memory(backend)  # training plans with the free memory
            config = city.cell_config(plan, number)
            config = dataclasses.replace(config, gpus=1 if config.frozen else gpus)
            return _train(files.scene, files.run, config, backend, display, timer)


def train_coarse(city: City, backend: Backend, gpus: int, display: Display, timer: PhaseTimer) -> RunSummary:
    """Train the coarse run of a city, or continue it, on `gpus` GPUs. UsageError."""
    run, config = city.coarse, dataclasses.replace(city.coarse_config(), gpus=gpus)
    lock = locked_run if is_run(run.path) else new_locked_run
    with lock(run.path):
        if run.result():  # of another command, for which this one waited
            return read_result(run)
        return _train(city.scene, run, config, backend, display, timer)


def _train(
    scene: Path, run: RunDir, config: TrainConfig, backend: Backend, display: Display, timer: PhaseTimer
) -> RunSummary:
    """Train a run, or continue it, on the GPUs of `config`."""
    start = Resumption(scene, config, None)
    if is_run(run.path):
        start = plan_resumption(run, scene, {"gpus": config.gpus}, display)
    return train_scene(start.scene, run, start.config, backend, display, start.checkpoint, timer=timer)


def prepare_cell(coarse: RunDir, out: Path, plan: CityPlan, number: int, backend: Backend, display: Display) -> None:
    """Write the files of a cell. Reads its photographs and the earlier trained cells.

    UsageError if its photographs are gone.
    """
    files, cell, before = CellFiles.of(out, number), plan.cells[number], plan.before(number)
    splats = last_splats(coarse)
    places = plan.ground(splats.means)
    around = cell.cell.trains(places)
    photographs = _photographs(coarse, out, cell.views, f"cell {number}", backend, display)
    pictures = CoarseViews(backend, splats, photographs.views, coarse.background())
    shown = _write_pictures(files, photographs, pictures, around)
    done = [own_splats(out, plan, other) for other in before]
    near = [part.select(cell.cell.trains(plan.ground(part.means))) for part in done]
    start = splats.select(around & ~plan.filled(places, before))
    _write_splats(files, photographs.views, start, merged([splats.select(shown & ~around), *near]))


def prepare_last_pass(city: City, plan: CityPlan, backend: Backend, display: Display) -> None:
    """Write the files of the last pass. If all splats fit, it starts with the most opaque ones and adds others.

    Otherwise it trains as many as fit: those that cover most of all photographs. UsageError if the photographs are
    gone, or if the splats do not fit even if most of them are frozen.
    """
    files, coarse = CellFiles.of(city.out, None), city.coarse
    splats = merged_splats(coarse, city.out, plan)
    names = [view.name for view in coarse.views("train")]
    photographs = _photographs(coarse, city.out, names, "the last pass", backend, display)
    count, share = _num_trainable(city, photographs.views, splats, backend)
    _run_all(partial(_write_picture, files, photographs, index) for index in range(len(photographs.views)))
    if count == len(splats):
        kept = splats.select(_largest(splats.logit_opacities, math.ceil(share * count)))
        _write_splats(files, photographs.views, kept, splats.select(slice(0)))
        return
    display.say(f"The last pass trains {count:,} of {len(splats):,} splats: the others do not fit into memory")
    pictures = CoarseViews(backend, splats, photographs.views, coarse.background())
    weights = np.zeros(len(splats))
    for index in range(len(photographs.views)):
        weights += pictures.weights(index)
    trained = _largest(weights, count)
    _write_splats(files, photographs.views, splats.select(trained), splats.select(~trained))


def _largest(values: np.ndarray, count: int) -> np.ndarray:
    """Mask of the `count` largest values [N]."""
    mask = np.zeros(len(values), bool)
    mask[np.argsort(-values, kind="stable")[:count]] = True
    return mask


def _num_trainable(city: City, views: Sequence[View], splats: SplatArrays, backend: Backend) -> tuple[int, float]:
    """How many of the splats the last pass can train in the memory of device and host, and the fraction to keep.

    The fraction is _KEPT, or more in a short pass, whose rounds of density control cannot add the others. UsageError if
    too few fit.
    """
    num = len(splats)
    config = dataclasses.replace(city.config, steps=city.last_steps, max_splats=num, splat_budget=0.0)
    resolved = resolve_plan(config, views, splats.means, from_splats=True).config
    memory = plan_memory(backend, resolved, views, num, image_budget(backend, config, views, ()))
    count = memory.trainable_of(num)
    if count < min(MIN_SPLATS, num):
        raise UsageError(f"{num:,} splats do not fit into memory: --last-steps 0 leaves out the last pass")
    rounds = (resolved.densify_stop - resolved.densify_start) // resolved.densify_interval
    return count, max(_KEPT, (1 + resolved.growth_rate) ** -rounds)


def merged_splats(coarse: RunDir, out: Path, plan: CityPlan) -> SplatArrays:
    """The splats of all cells (see `own_splats`), and the coarse splats that no cell has trained."""
    splats, numbers = last_splats(coarse), range(len(plan.cells))
    untrained = splats.select(~plan.filled(plan.ground(splats.means), numbers))
    reads = (partial(own_splats, out, plan, number) for number in numbers)
    return merged([untrained, *run_in_threads(reads, num_cores())])


def _photographs(
    coarse: RunDir, out: Path, names: Sequence[str], user: str, backend: Backend, display: Display
) -> ImageSet:
    """The training photographs of these names, without exposures. UsageError if they are gone."""
    chosen = set(names)
    views = [view for view in coarse.views("train") if view.name in chosen]
    try:
        photographs = load_run_images(coarse, views, None, backend, display, for_training=True)
    except SceneError as error:
        gone = f"all photographs of {user} are missing ({error})"
        raise UsageError(f"{gone}: restore them, or remove {out / 'cells'}") from None
    return _with_one_exposure(photographs, coarse, display)


def _write_splats(files: CellFiles, views: list[View], start: SplatArrays, frozen: SplatArrays) -> None:
    """Write the trained and the frozen splats and the model of the pictures; the former last.

    The model's points are the splats, also for --free-space: the coarse run has removed floaters with the dataset's
    points, and cells then have as few (docs/optimizations/several_gpus.md).
    """
    if len(frozen):
        write_ply(files.frozen, frozen)
    _write_model(files, views, start.means)
    write_ply(files.start, start, durable=True)


def _write_pictures(files: CellFiles, photographs: ImageSet, coarse: CoarseViews, around: np.ndarray) -> np.ndarray:
    """Write the pictures of a cell. around: mask of its splats, bool [N]. Returns a mask of the visible ones."""
    shown, inside = np.zeros(len(around), bool), coarse.mark(around)

    def writes() -> Iterator[Callable[[], None]]:
        for index in range(len(photographs.views)):
            picture, coverage, weights = coarse.render(index, inside)
            np.logical_or(shown, is_shown(weights), out=shown)
            yield partial(_write_picture, files, photographs, index, picture, coverage)

    _run_all(writes())
    return shown


def _run_all(calls: Iterable[Callable[[], None]]) -> None:
    for _ in run_in_threads(calls, num_cores()):
        pass


def _write_picture(
    files: CellFiles,
    photographs: ImageSet,
    index: int,
    coarse: np.ndarray | None = None,
    coverage: np.ndarray | None = None,
) -> None:
    """Write a photograph, or the picture of a cell with the given coverage, and its mask."""
    view, mask, picture = photographs.views[index], photographs.masks[index], photographs.images[index]
    if coarse is not None and coverage is not None:
        picture = picture_of_cell(picture, coarse, coverage)
    _save(files.scene / "images" / _file(view), picture)
    if mask is not None:
        _save(files.scene / "masks" / f"{_file(view)}.png", mask)


def own_splats(out: Path, plan: CityPlan, number: int) -> SplatArrays:
    """The trained splats of a cell that lie in it or in an earlier cell.

    Splats in an earlier cell fill gaps of that cell: they were trained around its frozen splats. No splat is in two
    cells.
    """
    files = CellFiles.of(out, number)
    with named_damage(files.folder):
        num_frozen = count_splats(files.frozen) if files.frozen.is_file() else 0
    own = last_splats(files.run, num_frozen)
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
        raise UsageError(
            f"{coarse.path} has lost the checkpoint with its exposures: restore it, or remove that folder and "
            f"{coarse.path.parent / 'cells'}, and the same command trains them again"
        )
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

"""Loading of runs and files: splats, as trained or baked for viewers, colour fields, cameras, photographs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from splat_cli.data.image_budget import images_fit
from splat_cli.device import Backend, open_backend
from splat_cli.errors import DeviceError, FormatError, SceneError, UsageError
from splat_cli.field.color_field import ColorField
from splat_cli.field.file import NAME, FieldFile, read_field
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.edits import Edits
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.ply import origin_of_file, read_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.io.files import changed_since, stamps_of
from splat_cli.render.bake_antialiasing import bake_antialiasing
from splat_cli.run.setup.training_data import load_image_set
from splat_cli.run.storage.find_run import find_splats, refuse_file_of_run, step_of
from splat_cli.run.storage.inputs import changed_inputs
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_cameras, write_cameras
from splat_cli.scene.crop import parse_crop
from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.georeferenced import moved_pose, point_of, relative_crop
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.read import read_scene
from splat_cli.scene.view import Scene, View
from splat_cli.terminal.console import Display, first_of, left_out


def save_cameras(sources: Sequence[Path], edits: Edits, out: Path) -> None:
    """Write the cameras of the only run among `sources` as JSON, moved as `merged` splats, then by `edits`.

    UsageError if `out` is a file of another kind.
    """
    _refuse_other_file(out)
    found = [find_splats(source) for source in sources]
    runs = [run for _, run in found if run is not None]
    if len(runs) != 1:
        raise UsageError(f"--cameras needs one run, but {len(runs)} of the sources are runs: export it alone")
    own, moved = runs[0].origin(), edits.similarity()
    origins = (np.array(origin_of_file(file)) if run is None else run.origin() for file, run in found)
    origin = next((one for one in origins if one.any()), own)
    shift = origin - own if own.any() else np.zeros(3)
    views = [dataclasses.replace(view, w2c=moved_pose(view.w2c, shift)) for view in runs[0].views("all")]
    write_cameras(out, [moved.apply(view) for view in views], () if edits.is_moving else origin)


def _refuse_other_file(out: Path) -> None:
    refuse_file_of_run(out)
    if not out.exists():
        return
    try:
        read_cameras(out)
    except FormatError:
        raise UsageError(f"{out} is not a file of cameras and would be overwritten: name another file") from None


def load_trained_splats(source: Path, spz_axes: str = "RUB") -> tuple[SplatArrays, RunDir | None]:
    """The splats of `source` as they were trained, and the run they come from, if any.

    spz_axes: see read_splats.
    """
    file, run = find_splats(source)
    splats = read_splats(file, spz_axes)
    return (dataclasses.replace(splats, antialiased=run.config().antialias) if run else splats), run


def warn_of_earlier_step(source: Path, display: Display) -> None:
    """Warn if `source` is a run's PLY of an earlier step than the poses and other models that the run stores."""
    file, run = find_splats(source)
    if run is not None and (later := run.stored_later_than(step_of(file))):
        display.warn(f"{file} is used with {later}: the run stores only the last ones")


def inside_crop(positions: np.ndarray, run: RunDir) -> np.ndarray:
    """Whether positions [N, 3] are inside of the region that the run exports (--crop), bool [N]."""
    crop = run.config().crop
    if crop is None:
        return np.ones(len(positions), bool)
    return relative_crop(parse_crop(crop), run.origin()).contains(positions)


def bake_for_viewers(splats: SplatArrays, run: RunDir | None, backend: Backend | None = None) -> SplatArrays:
    """Antialiased splats of a run, baked; others unchanged."""
    if run is None or not splats.antialiased or len(splats) == 0:
        return splats
    try:
        backend = backend or open_backend()
    except DeviceError as error:
        raise DeviceError(f"{error}; or export with --no-bake, for viewers with antialiasing") from None
    return bake_antialiasing(backend, splats, run.views("train"))


def field_path(source: Path) -> Path | None:
    """File of the run's colour field; None for runs without one and for files of splats.

    UsageError; FormatError if it is lost.
    """
    ply, run = find_splats(source)
    return _field_beside(ply, run) if source.is_dir() else None


def saved_field(ply: Path) -> FieldFile | None:
    """The field saved with a run's PLY, or None. FormatError if it is lost or damaged."""
    path = _field_beside(*find_splats(ply))
    return None if path is None else read_field(path)


def _field_beside(ply: Path, run: RunDir | None) -> Path | None:
    path = ply.with_name(NAME)
    if path.is_file():
        return path
    if run is not None and run.config().color == "field":
        raise FormatError(f"{path} is missing: restore it, or name {ply}, into which the colour field is baked")
    return None


def load_model(ply: Path, backend: Backend, arrays: SplatArrays | None = None) -> tuple[Splats, ColorField | None]:
    """Splats and colour field as trained; without a field, splats of the PLY, or `arrays` if already read."""
    saved = saved_field(ply)
    if saved is None:
        return Splats.from_arrays(backend, read_ply(ply) if arrays is None else arrays), None
    splats = Splats.from_arrays(backend, saved.splats)
    return splats, saved.open(backend, splats.capacity)


def load_run_images(
    run: RunDir,
    views: Sequence[View],
    scene: Path | Scene | None,
    backend: Backend,
    display: Display,
    *,
    for_training: bool = False,
) -> ImageSet:
    """Photographs of some of the run's views; those missing in the scene are skipped, with a warning.

    Also warns of photographs, masks and cameras that have changed since training.

    scene: the scene as `read_run_scene` returns it, or its folder, by default the one used in training. for_training:
    these changes are a UsageError. Raises SceneError.
    """
    read = scene if isinstance(scene, Scene) else read_run_scene(run, scene)
    config, scene_path = run.config(), scene if isinstance(scene, Path) else read.root
    found = {view.name: view for view in read.views}
    present = [_with_photograph(view, found[view.name]) for view in views if view.name in found]
    if not present:
        raise SceneError(f"{scene_path} has none of the run's photographs: give the run's scene with --scene")
    stamps = stamps_of(path for view in present for path in view.files)
    if others := other_scene(run, scene_path, [found[view.name] for view in present]):
        if for_training:
            raise UsageError(f"{others}: restore it, or start a new run")
        display.warn(f"{others}: its scores are for other photographs")
    lazily = not images_fit(backend, config, present)
    photographs = load_image_set(present, config, backend, display, lazily)
    if changed := changed_since(stamps):
        raise SceneError(changed)
    gone = [f"{view.name}: not in {scene_path}" for view in views if view.name not in found]
    if skipped := [*gone, *photographs.skipped]:
        display.warn(left_out(skipped, "photograph"))
    return photographs


def other_scene(run: RunDir, scene_path: Path, views: Sequence[View]) -> str | None:
    """Text that says which of these views of the scene have changed since training; None if none has."""
    changed = changed_inputs(run, views)
    return f"{scene_path} is not what {run.path} was trained on ({first_of(changed)})" if changed else None


def read_run_scene(run: RunDir, scene: Path | None) -> Scene:
    """The run's scene with its settings and origin; scene: its folder, by default the one used in training.

    Raises SceneError.
    """
    options = dataclasses.replace(SceneOptions.of(run.config()), origin=point_of(run.origin()))
    return read_scene(scene or run.scene_path(), options)


def _with_photograph(view: View, found: View) -> View:
    """The run's camera with the scene's photograph."""
    return dataclasses.replace(view, path=found.path, lens=found.lens, mask=found.mask)

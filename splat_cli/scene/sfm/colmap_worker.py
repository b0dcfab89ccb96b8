"""The process in which pycolmap runs: features and matches (colmap_database.py), incremental mapping, checks of models.

pycolmap has its own copy of SQLite. A second copy in the same process, such as Python's, that opens the same
database breaks its POSIX locks (https://www.sqlite.org/howtocorrupt.html, section 2.2.1), so this process does not
import `sqlite3`. It can also be killed at any time; otherwise, a call of pycolmap cannot be interrupted.

colmap_process.py calls `main`. The job, a JSON object, is the first line of the standard input, which stays open as
long as the parent lives. Messages, one JSON object per line after MARK, go to the standard output, among the lines that
COLMAP logs.
"""

import json
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import ceil_div, num_cores
from splat_cli.processes.child_process import end_with_parent
from splat_cli.processes.threads import run_in_threads
from splat_cli.scene.images.decode import decode_photo
from splat_cli.scene.sfm.colmap_database import (
    CONFIRMED,
    DATABASE,
    SEPARATE,
    copy_matches,
    covered_cells,
    extract,
    leave_out,
    match,
    places_of_features,
    register,
    send,
    turns_by_pairs,
    verify,
)

MODELS = ".models"
"""Suffix of the folder beside a database, with the models found so far."""
FEW_INLIERS = 15
"""Points by which the small copy of a photograph can be placed (COLMAP's: 30)."""
# Mapping:
_FEW_MATCHES, _FEW_INITIAL = 10, 50  # of small copies; COLMAP's: 15, 100
_GROWTH = 1.3  # of a model between two global bundle adjustments (COLMAP: 1.1)
_LEAST_LOCAL_GAIN, _LEAST_GAIN = 1e-3, 1e-4  # relative, of an iteration of an adjustment; COLMAP's: 0, all of 25 or 50
_LEAST_LAST_GAIN = 1e-6  # the same in the last one, with all points
_LOCAL_IMAGES = 4  # of a local adjustment; COLMAP's: 6
_LOCAL_ROUNDS, _ROUNDS = 1, 1  # maximum rounds of adjusting and filtering; COLMAP has 2, 5
_ONE_THREAD = 200  # up to this many photographs, one thread maps, so that each run finds the same poses
_MIN_MODEL_SIZE = 3
# Models that are saved and shown:
_SAVE_SECONDS, _SHOW_SECONDS = 10.0, 0.5  # between two saves, or two updates of a viewer
_SAVE_SHARE = 20.0  # and at least this many times the time that one takes
_SHOWN_POINTS = 20_000  # at most
# Pairs that look alike:
_NEAREST, _MUTUAL = 3, 5  # pairs of a photograph that cover most; of both photographs
_MIN_AGREEING = 0.5  # least share of a pair's matches
_MAX_ERROR = 4.0  # pixels from the epipolar line, as COLMAP verifies
_MAX_CONTRADICTED = 0.02  # of the cells of strong pairs; up to 0.019 in nine scenes, 0.03 to 0.08 in a folded one
# Cameras that photographs share:
_MIN_REGISTERED = 0.8
_MIN_COMPARED = 8  # photographs; fewer fit better with a camera each in any case
_COMPARED_POINTS = 100  # per photograph
_MIN_ERROR = 0.9  # with a camera each, relative to that of a shared camera; 0.95 to 0.99 for photographs of one camera
_MIN_ZOOM = 1.15  # 90th over 10th percentile; 1.01 to 1.07 for photographs of one camera
_OWN_CAMERA = 1_000_000  # added to an image's id
_REFINED, _MIN_LENS_ERROR = 20, 0.95  # photographs of a camera; relative error with more parameters of its lens
# GPS:
_MIN_LOCATIONS = 5
_GPS_ERROR = 10.0  # metres, inlier threshold of locations
_MIN_SPREAD = 5.0  # metres, standard deviation of locations across their longest direction
_MAX_SHARE = 0.25  # maximum median error, relative to that deviation
# How far poses depend on the points:
_SPLITS = 4  # of points into halves, to see how far poses depend on the half
_SPLIT_POINTS = 300  # per photograph, at most
_SPLIT_THREADS, _MAX_SPLIT = 2, 500  # halves that are adjusted at a time, and photographs, to limit memory and time
_NEAR = 0.02  # of the scene's size: cameras that are at the same place by both halves


def main() -> None:
    """Run the job that standard input describes."""
    job = json.loads(sys.stdin.readline())
    end_with_parent()
    import pycolmap

    pycolmap.logging.logtostderr = True
    pycolmap.set_random_seed(job["seed"])
    scene = Path(job["scene"])
    images, database = scene / "images", scene / DATABASE
    register(pycolmap, database, images, job, job["groups"] + job["sizes"])
    extract(pycolmap, database, images, job)
    match(pycolmap, database, job)
    verify(pycolmap, database, job["seed"])
    models = _map(pycolmap, database, images, job)
    models = _without_lookalikes(pycolmap, models, database, images, job)
    guessed = {name for group in job["sizes"] for name in group}
    if guessed and not _is_shared(pycolmap, models, guessed, len(job["names"])):
        models = _map_separately(pycolmap, models, database, images, job)
    if job["refines_lens"]:
        models = [_with_refined_lens(pycolmap, model, len(job["names"])) for model in models]
    for model in models:
        _color_points(model, images)
    written = _write(pycolmap, models, scene / "sparse", job)
    Shown(job).write(models)
    turns = _turns_of_few(pycolmap, database, models, job)
    send(models=len(models), spread=_spread_if_known(pycolmap, models, job), turns=turns, **written)
    SavedModels(database).remove()


def _map(pycolmap: Any, database: Path, images: Path, job: Mapping[str, Any], phase: str = "placed") -> list[Any]:
    """The models of the scene's parts, the largest first; continues models that an interrupted process has saved."""
    num, seed = len(job["names"]), job["seed"]
    send(phase=phase, total=num)
    saved, shown = SavedModels(database), Shown(job)
    models = _saved_models(pycolmap, saved)
    begun = [models.pop()] if models else []
    while True:
        left = sorted(set(job["names"]) - _placed(models) | _placed(begun))
        options = _options(pycolmap, num)
        options.image_path, options.image_names, options.random_seed = images, left, seed
        options.mapper.random_seed = options.triangulation.random_seed = seed
        if job["are_small"]:
            options.min_num_matches = _FEW_MATCHES
            options.mapper.init_min_num_inliers = _FEW_INITIAL
            options.mapper.abs_pose_min_num_inliers = FEW_INLIERS
        models += _mapped(pycolmap, database, options, models, saved.folders()[-1:] if begun else [], saved, shown)
        if not begun or len(_placed(models)) > num - _MIN_MODEL_SIZE:
            for model in models:
                _adjust(pycolmap, model, num, _LEAST_LAST_GAIN)
            return sorted(models, key=lambda model: model.num_reg_images(), reverse=True)
        begun = []  # COLMAP may end after it has continued a model: others are still to be found


def _mapped(
    pycolmap: Any,
    database: Path,
    options: Any,
    finished: Sequence[Any],
    begun: Sequence[Path],
    saved: "SavedModels",
    shown: "Shown",
) -> list[Any]:
    """Models that COLMAP finds, or that of the folder `begun`, continued; saved at times, with the finished ones."""
    manager, opened = pycolmap.ReconstructionManager(), pycolmap.Database.open(database)
    for folder in begun:
        manager.read(folder)
    pipeline = pycolmap.IncrementalPipeline(options, opened, manager)

    def on_image() -> None:
        models = [*finished, *map(manager.get, range(manager.size()))]
        send(done=len(_placed(models)))
        saved.write_at_times(models)
        shown.write_at_times(models)

    events = pycolmap.IncrementalPipelineCallback
    for event in (events.INITIAL_IMAGE_PAIR_REG_CALLBACK, events.NEXT_IMAGE_REG_CALLBACK):
        pipeline.add_callback(event.value, on_image)
    pipeline.run()
    opened.close()
    return list(map(manager.get, range(manager.size())))


def _options(pycolmap: Any, num: int) -> Any:
    """Options of incremental mapping of `num` photographs, and of the adjustments in it."""
    options = pycolmap.IncrementalPipelineOptions(min_model_size=min(_MIN_MODEL_SIZE, num))
    options.num_threads = 1 if num <= _ONE_THREAD else -1
    options.ba_global_frames_ratio = options.ba_global_points_ratio = _GROWTH
    options.ba_local_function_tolerance, options.ba_global_function_tolerance = _LEAST_LOCAL_GAIN, _LEAST_GAIN
    options.mapper.ba_local_num_images = _LOCAL_IMAGES
    options.ba_local_max_refinements, options.ba_global_max_refinements = _LOCAL_ROUNDS, _ROUNDS
    options.mapper.ba_global_ignore_redundant_points3D = True  # while a model grows; see `_adjust`
    options.extract_colors = False  # see `_color_points`
    return options


def _adjust(pycolmap: Any, model: Any, num: int, least_gain: float) -> None:
    """Adjust a model of up to `num` photographs: cameras, poses and all points."""
    adjustment = _options(pycolmap, num).get_global_bundle_adjustment()
    adjustment.print_summary, adjustment.ceres.solver_options.function_tolerance = False, least_gain
    pycolmap.bundle_adjustment(model, adjustment)
    model.update_point_3d_errors()


def _saved_models(pycolmap: Any, saved: "SavedModels") -> list[Any]:
    """Models that an interrupted process has saved; none if a file is damaged: then mapping starts again."""
    with suppress(ValueError, RuntimeError, IndexError, OSError):
        models = list(map(pycolmap.Reconstruction, saved.folders()))
        if all(model.num_reg_images() and model.num_points3D() for model in models):  # COLMAP reads empty files
            return models
    saved.remove()
    return []


def _placed(models: Sequence[Any]) -> set[str]:
    """Names of the photographs that have a pose in a model."""
    return {model.images[number].name for model in models for number in model.reg_image_ids()}


class _Written(ABC):
    """Models that COLMAP maps, written at times. seconds: least time between two writes; first: before the first."""

    def __init__(self, seconds: float, first: float) -> None:
        self._seconds, self._next = seconds, time.monotonic() + first

    def write_at_times(self, models: Sequence[Any]) -> None:
        """`write`, unless that was a short time ago, relative to the time that it takes."""
        start = time.monotonic()
        if start >= self._next:
            self.write(models)
            now = time.monotonic()
            self._next = now + max(self._seconds, _SAVE_SHARE * (now - start))

    @abstractmethod
    def write(self, models: Sequence[Any]) -> None:
        """Write the models."""


class SavedModels(_Written):
    """Models of a database that is being mapped, saved beside it: NUMBER/0, 1, ... in a folder, the newest complete.

    The last model of them is not finished.
    """

    def __init__(self, database: Path) -> None:
        super().__init__(_SAVE_SECONDS, first=_SAVE_SECONDS)
        self.folder = database.with_suffix(MODELS)

    def folders(self) -> list[Path]:
        """A folder for each model; empty without any."""
        newest = max(self._versions(), key=lambda path: int(path.name), default=None)
        return sorted(newest.iterdir(), key=lambda path: int(path.name)) if newest else []

    def write(self, models: Sequence[Any]) -> None:
        """Save the models, and remove those saved before."""
        old = self._versions()
        target = self.folder / str(max([int(path.name) for path in old], default=0) + 1)
        part = target.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        for number, model in enumerate(models):
            (part / str(number)).mkdir(parents=True)
            model.write(part / str(number))
        part.rename(target)
        for path in old:
            shutil.rmtree(path)

    def remove(self) -> None:
        """Remove what is saved."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _versions(self) -> list[Path]:
        return [path for path in self.folder.glob("*") if path.name.isdigit()]


class Shown(_Written):
    """The file in which a watched job shows cameras and points of the largest model; see `Placed`."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        super().__init__(_SHOW_SECONDS, first=0.0)
        self._path = Path(job["placed"]) if job.get("placed") else None

    def write(self, models: Sequence[Any]) -> None:
        """Write the file instead of the former one, and say so."""
        if not (self._path and models):
            return
        model = max(models, key=lambda one: one.num_reg_images())
        images = [model.images[number] for number in sorted(model.reg_image_ids())]
        focals = np.array([image.camera.mean_focal_length() for image in images]).reshape(-1, 1)
        sizes = np.array([(image.camera.width, image.camera.height) for image in images]).reshape(-1, 2)
        numbers = sorted(model.point3D_ids())
        points = [model.points3D[number] for number in numbers[:: ceil_div(len(numbers), _SHOWN_POINTS) or 1]]
        arrays = {
            "w2c": np.array([image.cam_from_world().matrix() for image in images], np.float32).reshape(-1, 3, 4),
            "slopes": (sizes / 2 / focals).astype(np.float32),
            "points": np.array([point.xyz for point in points], np.float32).reshape(-1, 3),
            "colors": np.array([point.color for point in points], np.uint8).reshape(-1, 3),
        }
        part = self._path.with_suffix(".part")
        try:
            with part.open("wb") as file:
                np.savez(file, **arrays)
            part.replace(self._path)
        except OSError:  # the disk of temporary files is full: mapping does not need them
            return
        send(placed=str(self._path))


def _without_lookalikes(
    pycolmap: Any, models: list[Any], database: Path, images: Path, job: Mapping[str, Any]
) -> list[Any]:
    """Map again, and leave pairs out of the database, if the model contradicts strong pairs.

    Two sides of a can with the same label match, and mapping may put one on top of the other. But matches of a label
    cover less of a photograph than those of neighbours. So the pairs that cover most are mapped first, then all pairs
    that this model does not contradict.
    """
    if not models or job["spheres"]:
        return models
    cells = covered_cells(pycolmap, database)
    strong = _strongest(cells, _MUTUAL, 2)

    def share(model: Any) -> float:
        found = _contradicted(pycolmap, database, model, strong)
        return sum(cells[pair] for pair in found) / max(sum(cells[pair] for pair in strong), 1)

    before = share(models[0])
    if before <= _MAX_CONTRADICTED:
        return models
    least, confirmed = before / 2, database.with_name(CONFIRMED)
    for first in (_strongest(cells, _NEAREST, 1), strong):
        kept, again = first, models
        for _ in range(2):
            leave_out(pycolmap, database, confirmed, cells.keys() - kept)
            SavedModels(confirmed).remove()  # of an interrupted process
            again = _map(pycolmap, confirmed, images, job, "again") or again
            SavedModels(confirmed).remove()
            kept = cells.keys() - _contradicted(pycolmap, database, again[0], cells)
        is_larger = again[0].num_reg_images() >= models[0].num_reg_images()
        if is_larger and len(_placed(again)) >= len(_placed(models)) and share(again[0]) < least:
            SavedModels(database).remove()  # before the database changes, which they do not fit then
            confirmed.replace(database)
            return again
    confirmed.unlink()
    send(phase="kept", total=len(job["names"]))
    send(done=len(_placed(models)))
    return models


def _strongest(cells: Mapping[tuple[int, int], int], num: int, least: int) -> set[tuple[int, int]]:
    """Pairs that are among the `num` which cover most of a photograph, for at least `least` of their photographs."""
    ranks, strong = Counter[int](), set()
    for pair in sorted(cells, key=lambda pair: (-cells[pair], pair)):
        if sum(ranks[number] < num for number in pair) >= least:
            strong.add(pair)
        ranks.update(pair)
    return strong


def _contradicted(pycolmap: Any, database: Path, model: Any, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """Pairs most of whose matches are far from the epipolar lines of the model's poses."""
    opened = pycolmap.Database.open(database)
    places = places_of_features(opened)
    placed, found = set(model.reg_image_ids()), set()
    for pair in sorted(pairs):
        if not placed.issuperset(pair):
            continue
        images = [model.images[number] for number in pair]
        matches = opened.read_two_view_geometry(*pair).inlier_matches
        first, second = (
            np.pad(image.camera.cam_from_img(places(number)[column]), ((0, 0), (0, 1)), constant_values=1)
            for image, number, column in zip(images, pair, matches.T, strict=True)
        )
        moved = images[1].cam_from_world() * images[0].cam_from_world().inverse()
        line = np.cross(moved.translation, first @ moved.rotation.matrix().T)
        distance = np.abs((second * line).sum(axis=1)) / np.maximum(np.hypot(line[:, 0], line[:, 1]), 1e-12)
        error = distance * images[1].camera.mean_focal_length()
        if np.mean(error < _MAX_ERROR) < _MIN_AGREEING:
            found.add(pair)
    opened.close()
    return found


def _is_shared(pycolmap: Any, models: Sequence[Any], guessed: Set[str], num: int) -> bool:
    """Whether the photographs `guessed` to be of one camera fit as well with one camera as with one for each.

    Photographs of a zoom lens or of two phones do not: some are left out, or separate cameras have a lower reprojection
    error and different focal lengths.
    """
    if not models or models[0].num_reg_images() < _MIN_REGISTERED * num:
        return False
    model = models[0]
    if model.num_reg_images() < _MIN_COMPARED:
        return True
    split = _split_cameras(pycolmap, _with_fewer_points(pycolmap, model, _COMPARED_POINTS), guessed)
    before: float = split.compute_mean_reprojection_error()
    _adjust(pycolmap, split, num, _LEAST_GAIN)
    changes = [
        split.cameras[split.images[number].camera_id].focal_length / model.cameras[image.camera_id].focal_length
        for number, image in model.images.items()
        if image.name in guessed
    ]
    low, high = np.percentile(changes, (10, 90)) if changes else (1.0, 1.0)
    error = split.compute_mean_reprojection_error() / before
    return error > _MIN_ERROR or bool(high < _MIN_ZOOM * low)


def _with_fewer_points(pycolmap: Any, model: Any, num_points: int) -> Any:
    """A copy of the model with the points of the longest tracks, about `num_points` per photograph."""
    reduced, num_seen = pycolmap.Reconstruction(model), Counter[int]()
    tracks = {number: [one.image_id for one in point.track.elements] for number, point in model.points3D.items()}
    for number in sorted(tracks, key=lambda number: (-len(tracks[number]), number)):
        if min(num_seen[image] for image in tracks[number]) < num_points:
            num_seen.update(tracks[number])
        else:
            reduced.delete_point3D(number)
    reduced.update_point_3d_errors()
    return reduced


def _split_cameras(pycolmap: Any, model: Any, names: Set[str]) -> Any:
    """A copy of the model in which each of the photographs has a camera of its own."""
    split = pycolmap.Reconstruction()
    for number, image in model.images.items():
        if image.has_pose:
            camera = copy(image.camera)
            camera.camera_id = _OWN_CAMERA + number if image.name in names else image.camera_id
            if not split.exists_camera(camera.camera_id):
                split.add_camera_with_trivial_rig(camera)
            own = pycolmap.Image(image.name, image.points2D, camera.camera_id, number)
            split.add_image_with_trivial_frame(own, image.cam_from_world())
    for number, point in model.points3D.items():
        split.add_point3D_with_id(number, point)
    return split


def _map_separately(
    pycolmap: Any, shared: list[Any], database: Path, images: Path, job: Mapping[str, Any]
) -> list[Any]:
    """Map again with a camera for each photograph without EXIF data; `shared` if that registers more photographs."""
    separate = database.with_name(SEPARATE)
    saved = SavedModels(separate)
    for path in separate.parent.glob(f"{separate.name}*"):
        path.unlink()
    register(pycolmap, separate, images, job, job["groups"])
    copy_matches(pycolmap, database, separate)
    models = _map(pycolmap, separate, images, job)
    if shared and (not models or models[0].num_reg_images() < shared[0].num_reg_images()):
        separate.unlink()
    else:
        shared = models
        SavedModels(database).remove()  # they do not match the new database
        separate.replace(database)
    saved.remove()
    return shared


def _with_refined_lens(pycolmap: Any, model: Any, num: int) -> Any:
    """The model with OPENCV's lens for cameras of many photographs, adjusted, if a part of the points fits better."""
    few = _with_fewer_points(pycolmap, model, _COMPARED_POINTS)
    before: float = few.compute_mean_reprojection_error()
    if not _refine_lenses(pycolmap, few, num) or few.compute_mean_reprojection_error() > _MIN_LENS_ERROR * before:
        return model
    refined = pycolmap.Reconstruction(model)
    _refine_lenses(pycolmap, refined, num)
    return refined


def _refine_lenses(pycolmap: Any, model: Any, num: int) -> bool:
    """Adjust the model with more parameters of lenses; False if no camera has one and _REFINED photographs."""
    models = pycolmap.CameraModelId
    num_of = Counter(image.camera_id for image in model.images.values() if image.has_pose)
    cameras = [camera for number, camera in model.cameras.items() if num_of[number] >= _REFINED]
    cameras = [camera for camera in cameras if camera.model == models.SIMPLE_RADIAL]
    for camera in cameras:
        focal, *middle, radial = camera.params
        camera.model, camera.params = models.OPENCV, [focal, focal, *middle, radial, 0, 0, 0]
    if cameras:
        _adjust(pycolmap, model, num, _LEAST_LAST_GAIN)
    return bool(cameras)


def _color_points(model: Any, images: Path) -> None:
    """Give each point the mean colour of the photographs that show it.

    COLMAP decodes a photograph in the thread that maps, when it is placed. Its `extract_colors_for_all_images` does not
    count photographs that show the point within half a pixel of the border.
    """

    def seen(image: Any) -> tuple[list[int], np.ndarray]:
        points, size = image.get_observation_points2D(), (image.camera.width, image.camera.height)
        try:
            pixels, _ = decode_photo(images / image.name, size, (0, 0, 0))
        except ValueError:  # damaged; COLMAP reads some of these
            return [], np.empty((0, 3))
        x, y = np.reshape([point.xy for point in points], (-1, 2)).astype(int).clip(0, np.array(size) - 1).T
        return [point.point3D_id for point in points], pixels[y, x]

    shown = [model.images[number] for number in model.reg_image_ids()]
    numbers, colors = zip(*run_in_threads((partial(seen, image) for image in shown), num_cores()), strict=True)
    found, which, counts = np.unique(np.concatenate(numbers).astype(int), return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(which, channel) for channel in np.concatenate(colors).T], axis=1)
    for number, color in zip(found, np.rint(sums / counts[:, None]).astype(np.uint8), strict=True):
        model.points3D[number].color = color


def _write(pycolmap: Any, models: Sequence[Any], sparse: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Write the models to sparse/0, 1, ..., the largest aligned to GPS data; returns its statistics."""
    if not models:
        return {}
    largest = models[0]
    gps_error = _align(pycolmap, largest, job["locations"], job["seed"])
    shutil.rmtree(sparse, ignore_errors=True)
    for number, model in enumerate(models):
        (sparse / str(number)).mkdir(parents=True)
        model.write(sparse / str(number))
    placed = {image.name for image in largest.images.values() if image.has_pose}
    return {
        "unregistered": [name for name in job["names"] if name not in placed],
        "points": largest.num_points3D(),
        "error": largest.compute_mean_reprojection_error(),
        "track_length": largest.compute_mean_track_length(),
        "gps_error": gps_error,
    }


def _align(pycolmap: Any, model: Any, locations: Mapping[str, list[float]], seed: int) -> float | None:
    """Transform the model to metres, with axes east, north, up; returns the median error in metres, None without GPS.

    The model is unchanged if, within the accuracy of GPS, the photographs were taken in one place or nearly in a line:
    errors of GPS would determine scale or orientation.
    """
    centers = {image.name: image.projection_center() for image in model.images.values() if image.has_pose}
    names = sorted(centers.keys() & locations.keys())
    if len(names) < _MIN_LOCATIONS:
        return None
    places = np.array([locations[name] for name in names])
    _, across, _ = np.linalg.svd(places - places.mean(axis=0), compute_uv=False) / len(names) ** 0.5
    ransac = pycolmap.RANSACOptions(max_error=_GPS_ERROR)
    ransac.random_seed = seed
    moved = pycolmap.align_reconstruction_to_locations(model, names, places, _MIN_LOCATIONS, ransac)
    if moved is None or across < _MIN_SPREAD:
        return None
    errors = [np.linalg.norm(moved * centers[name] - locations[name]) for name in names]
    if np.median(errors) > _MAX_SHARE * across:
        return None
    model.transform(moved)
    return float(np.median(errors))


def _spread_if_known(pycolmap: Any, models: Sequence[Any], job: Mapping[str, Any]) -> float:
    """The spread of the largest model; 0 without models, for many photographs, or if COLMAP fails."""
    if not models or models[0].num_reg_images() > _MAX_SPLIT:
        return 0.0
    try:
        return _spread(pycolmap, models[0], job)
    except (RuntimeError, ValueError, IndexError, MemoryError):  # as which pycolmap raises those of C++
        return 0.0


def _spread(pycolmap: Any, model: Any, job: Mapping[str, Any]) -> float:
    """How far a camera is from its place by the other half of the points (median), relative to the scene's size.

    Photographs that overlap well have about the same poses by each half. 1 if no cameras are near each other.
    """
    model = _with_fewer_points(pycolmap, model, _SPLIT_POINTS)
    shown, numbers = model.reg_image_ids(), np.array(sorted(model.points3D), int)
    if len(numbers) < 2:
        return 1.0
    centers, places = _centers(model, shown), np.array([point.xyz for point in model.points3D.values()])
    away, depth = (np.linalg.norm(one - centers.mean(axis=0), axis=1) for one in (centers, places))
    size = float(np.sqrt(away.max() * np.median(depth)))

    def adjusted(left_out: np.ndarray) -> Any:
        half = pycolmap.Reconstruction(model)
        for number in numbers[left_out]:
            half.delete_point3D(int(number))
        _adjust(pycolmap, half, _ONE_THREAD, _LEAST_LAST_GAIN)  # so each takes one thread
        return half

    dice = np.random.default_rng(job["seed"])
    orders = [dice.permutation(len(numbers)) % 2 for _ in range(_SPLITS)]
    calls = (partial(adjusted, order == which) for order in orders for which in (0, 1))
    halves = run_in_threads(calls, _SPLIT_THREADS)
    distances = []
    for first, second in zip(halves, halves, strict=True):
        moved = pycolmap.align_reconstructions_via_proj_centers(first, second, _NEAR * size)
        if moved is None:
            return 1.0
        first.transform(moved)
        distances.append(np.linalg.norm(_centers(first, shown) - _centers(second, shown), axis=1) / size)
    return float(np.median(distances))


def _centers(model: Any, numbers: Sequence[int]) -> np.ndarray:
    """Positions of the cameras [N, 3] of photographs."""
    return np.array([model.images[number].projection_center() for number in numbers])


def _turns_of_few(pycolmap: Any, database: Path, models: Sequence[Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """`turns_by_pairs` of small copies if few of them have a pose; empty if most have one, or if COLMAP fails.

    Cameras that hardly move before a distant view have no points, but matches show how they turned.
    """
    num = len(job["names"])
    if not job["are_small"] or job["spheres"] or not models or models[0].num_reg_images() >= _MIN_REGISTERED * num:
        return {}
    try:
        return turns_by_pairs(pycolmap, database, _relative_focal(models[0]), job["seed"])
    except (RuntimeError, ValueError, IndexError):  # as which pycolmap raises those of C++
        return {}


def _relative_focal(model: Any) -> float:
    """Median focal length of photographs with a pose, relative to their longer side."""
    cameras = [model.images[number].camera for number in model.reg_image_ids()]
    return float(np.median([camera.mean_focal_length() / max(camera.width, camera.height) for camera in cameras]))

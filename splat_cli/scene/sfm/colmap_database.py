"""COLMAP's database of a scene: cameras, features, verified pairs of photographs, and rotations by these pairs.

Called in the process of colmap_worker.py.
"""

import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from splat_cli.device import ceil_div, num_cores
from splat_cli.processes.threads import run_in_threads
from splat_cli.scene.colmap.model import SPHERE

MARK = "@splat "
DATABASE = "database.db"
"""The database in the folder of a scene."""
SEPARATE = "separate.db"
"""Database with a camera for each photograph, beside that of the scene while photographs are mapped."""
CONFIRMED = "confirmed.db"
"""Database without some of the pairs, beside that of the scene while photographs are mapped again."""
LARGE = 1.5e6
"""Pixels of photographs that may have enough features without the finest, which copies of twice their size show."""
_ENOUGH = 3000  # features
_SAMPLE = 4  # photographs
_ORIENTATIONS = 1  # of a feature; COLMAP's: 2, for a sixth more features and time, where a GPU needs hardly any
_MAX_SIDE = 3200  # pixels; COLMAP scales larger photographs down
_MAX_TRIALS, _LEAST_SHARE = 2000, 0.25  # of RANSAC: trials, share of inliers (COLMAP: 10,000, 0.25)
_KEPT = 100  # photographs whose features are in memory while pairs are read
_AHEAD = 8  # pairs per thread: a pair that overlaps little takes up to 15 times as long as others
_BLOCKS = 8
_MIN_BLOCK, _MAX_BLOCK = 5, 50
_LISTED_BLOCK = 100
_CELLS = 12  # along the longer side of a photograph, to see how much of it a pair's matches cover
_PARTS = 5  # of the pairs: each is compared with rotations by the others
_MIN_AGREEING, _MAX_TURN_ERROR = 0.5, 10.0  # share of the pairs; degrees, as COLMAP's rotation averaging


def send(**message: Any) -> None:
    """Write a message in a single call, so that output of other threads does not split the line."""
    os.write(1, f"\n{MARK}{json.dumps(message)}\n".encode())


def register(
    pycolmap: Any, database: Path, images: Path, job: Mapping[str, Any], groups: Sequence[Sequence[str]]
) -> None:
    """Register photographs and cameras: one camera per group, and one for each other photograph.

    Photographs of `job["spheres"]` are spherical, whatever the camera model of the others.
    Before feature extraction: COLMAP then skips what an interrupted process has done.
    """
    if _num_registered(pycolmap, database) == len(job["names"]):
        _rename(pycolmap, database, _original)  # after an interruption of `match`
        return
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()
    _num_registered(pycolmap, database)  # creates the file
    model = job["camera_model"]
    batches = [(group, SPHERE) for group in job["spheres"]] + [(group, model) for group in groups]
    for names, camera_model in batches:
        _register_group(pycolmap, database, images, names, camera_model)
    grouped = {name for names, _ in batches for name in names}
    if others := [name for name in job["names"] if name not in grouped]:
        reader = pycolmap.ImageReaderOptions(camera_model=model)
        pycolmap.import_images(database, images, pycolmap.CameraMode.AUTO, others, reader)


def _register_group(pycolmap: Any, database: Path, images: Path, names: Sequence[str], camera_model: str) -> None:
    """Register photographs of one camera and size, as `import_images` does, which decodes all of them."""
    reader = pycolmap.ImageReaderOptions(camera_model=camera_model)
    camera = None
    for name in names:
        with suppress(ValueError):  # damaged
            camera = pycolmap.infer_camera_from_image(images / name, reader)
            break
    if camera is None:
        return
    opened = pycolmap.Database.open(database)
    with pycolmap.DatabaseTransaction(opened):
        camera.camera_id = opened.write_camera(camera)
        rig = pycolmap.Rig()
        rig.add_ref_sensor(camera.sensor_id)
        rig.rig_id = opened.write_rig(rig)
        for name in names:
            image, frame = pycolmap.Image(name=name, camera_id=camera.camera_id), pycolmap.Frame()
            image.image_id = opened.write_image(image)
            frame.rig_id = rig.rig_id
            frame.add_data_id(image.data_id)
            opened.write_frame(frame)
    opened.close()


def _num_registered(pycolmap: Any, database: Path) -> int:
    opened = pycolmap.Database.open(database)
    num: int = opened.num_images()
    opened.close()
    return num


def extract(pycolmap: Any, database: Path, images: Path, job: Mapping[str, Any]) -> None:
    """Extract features of the registered photographs, outside of black pixels of masks."""
    device = _device(pycolmap)
    send(phase="features", total=len(job["names"]), device=device.name)
    extraction = pycolmap.FeatureExtractionOptions()
    if job["are_small"]:
        extraction.sift.first_octave = -1 if job["are_enlarged"] else 0
    elif device == pycolmap.Device.cpu:
        extraction.sift.max_num_orientations = _ORIENTATIONS
        extraction.sift.first_octave = _first_octave(pycolmap, [images / name for name in job["names"]])
    masks = Path(job["masks"]) if job["masks"] else None
    masked = [name for name in job["names"] if masks and (masks / f"{name}.png").is_file()]
    others = [name for name in job["names"] if name not in set(masked)]
    for names, folder in ((masked, masks), (others, None)):  # COLMAP skips photographs without a mask in the folder
        if names:
            reader = pycolmap.ImageReaderOptions(**({"mask_path": folder} if folder else {}))
            pycolmap.extract_features(
                database,
                images,
                image_names=names,
                reader_options=reader,
                extraction_options=extraction,
                device=device,
            )


def _first_octave(pycolmap: Any, paths: Sequence[Path]) -> int:
    """-1 to search photographs at twice their size, too, for which three quarters of the time are spent.

    0 if a few photographs have enough features without.
    """
    options = pycolmap.FeatureExtractionOptions()
    options.sift.first_octave = 0
    sift = pycolmap.Sift(options, pycolmap.Device.cpu)
    counts = []
    for path in paths[:: ceil_div(len(paths), _SAMPLE)]:
        bitmap = pycolmap.Bitmap.read(path, False)
        if bitmap is not None and bitmap.width * bitmap.height >= LARGE:
            step = ceil_div(max(bitmap.width, bitmap.height), _MAX_SIDE)
            counts.append(len(sift.extract(np.ascontiguousarray(bitmap.to_array()[::step, ::step]))[0]))
    return 0 if counts and np.median(counts) >= _ENOUGH else -1


def _device(pycolmap: Any) -> Any:
    """A GPU if there is one and pycolmap was built for it (the extra `sfm-cuda`), else the CPU."""
    num = ctypes.c_int(0)
    if pycolmap.has_cuda:
        with suppress(OSError):  # no driver
            driver = ctypes.CDLL("libcuda.so.1")
            if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(num)):
                num.value = 0
    return pycolmap.Device.cuda if num.value else pycolmap.Device.cpu


def match(pycolmap: Any, database: Path, job: Mapping[str, Any]) -> None:
    """Match the job's pairs, or all, in blocks, for progress."""
    num, pairs, device = len(job["names"]), job["pairs"], _device(pycolmap)
    send(phase="pairs", total=num * (num - 1) // 2 if pairs is None else len(pairs), device=device.name)
    matching = pycolmap.FeatureMatchingOptions(skip_geometric_verification=True)  # see `verify`
    if pairs is None:
        pairing = pycolmap.ExhaustivePairingOptions()
        pairing.block_size = min(max(ceil_div(num, _BLOCKS), _MIN_BLOCK), _MAX_BLOCK)
        pycolmap.match_exhaustive(database, matching_options=matching, pairing_options=pairing, device=device)
    else:
        _rename(pycolmap, database, _listable)
        with tempfile.TemporaryDirectory() as folder:
            listed = Path(folder) / "pairs.txt"
            listed.write_text("".join(f"{_listable(first)} {_listable(second)}\n" for first, second in pairs))
            listing = pycolmap.ImportedPairingOptions(match_list_path=listed, block_size=_LISTED_BLOCK)
            pycolmap.match_image_pairs(database, matching_options=matching, pairing_options=listing, device=device)
        _rename(pycolmap, database, _original)


def places_of_features(opened: Any) -> Callable[[int], np.ndarray]:
    """Function from a photograph's number in an open database to the places of its features [N, 2], px."""
    return lru_cache(_KEPT)(lambda number: np.asarray(opened.read_keypoints(number))[:, :2].astype(float))


def verify(pycolmap: Any, database: Path, seed: int) -> None:
    """Find the matches of each pair that agree with one movement of the camera; continues where a process ended.

    A pair of n matches counts if at least m = `min_num_inliers` agree, so RANSAC takes the trials that a share of m / n
    needs. Most pairs that do not overlap have n close to m: COLMAP's single least share takes many more trials.
    """
    opened = pycolmap.Database.open(database)
    cameras = {image.image_id: opened.read_camera(image.camera_id) for image in opened.read_all_images()}
    places = places_of_features(opened)

    def verified(pair: tuple[int, int], matches: np.ndarray, points: Sequence[np.ndarray]) -> tuple[int, int, Any]:
        options = pycolmap.TwoViewGeometryOptions()
        options.ransac.random_seed, options.ransac.max_num_trials = seed, _MAX_TRIALS
        options.ransac.min_inlier_ratio = max(_LEAST_SHARE, min(options.min_num_inliers / max(len(matches), 1), 1.0))
        first, second = map(cameras.get, pair)
        return (*pair, pycolmap.estimate_two_view_geometry(first, points[0], second, points[1], matches, options))

    matched = sorted(map(pycolmap.pair_id_to_image_pair, opened.read_num_matches()[0]))
    pairs = [pair for pair in matched if not opened.exists_two_view_geometry(*pair)]
    calls = (partial(verified, pair, opened.read_matches(*pair), [places(one) for one in pair]) for pair in pairs)
    send(phase="verified", total=len(pairs))
    for number, result in enumerate(run_in_threads(calls, num_cores(), _AHEAD * num_cores()), 1):
        opened.write_two_view_geometry(*result)
        send(done=number)
    opened.close()


def _listable(name: str) -> str:
    """The name in a list of pairs, where spaces separate names and # begins a comment; "/" marks quoted ones."""
    quoted = quote(name)
    return name if quoted == name else f"/{quoted}"


def _original(name: str) -> str:
    return unquote(name[1:]) if name.startswith("/") else name


def _rename(pycolmap: Any, database: Path, change: Callable[[str], str]) -> None:
    """Change the names of the photographs in the database."""
    opened = pycolmap.Database.open(database)
    with pycolmap.DatabaseTransaction(opened):
        for image in opened.read_all_images():
            if change(image.name) != image.name:
                image.name = change(image.name)
                opened.update_image(image)
    opened.close()


def leave_out(pycolmap: Any, source: Path, target: Path, pairs: Iterable[tuple[int, int]]) -> None:
    """Copy a database; the pairs do not match in it."""
    for path in target.parent.glob(f"{target.name}*"):  # of an interrupted process
        path.unlink()
    shutil.copyfile(source, target)
    opened = pycolmap.Database.open(target)
    with pycolmap.DatabaseTransaction(opened):
        for pair in sorted(pairs):
            opened.delete_two_view_geometry(*pair)
            opened.write_two_view_geometry(*pair, pycolmap.TwoViewGeometry())
    opened.close()


def copy_matches(pycolmap: Any, source: Path, target: Path) -> None:
    """Copy features and matches between databases of the same photographs, whose ids may differ."""
    old, new = pycolmap.Database.open(source), pycolmap.Database.open(target)
    ids = {image.image_id: new.read_image_with_name(image.name).image_id for image in old.read_all_images()}
    with pycolmap.DatabaseTransaction(new):
        for before, now in ids.items():
            new.write_keypoints(now, old.read_keypoints(before))
            new.write_descriptors(now, old.read_descriptors(before))
        for first, second in combinations(ids, 2):
            if old.exists_matches(first, second):
                new.write_matches(ids[first], ids[second], old.read_matches(first, second))
            if old.exists_two_view_geometry(first, second):
                geometry = old.read_two_view_geometry(first, second)
                new.write_two_view_geometry(ids[first], ids[second], geometry)
    old.close()
    new.close()


def covered_cells(pycolmap: Any, database: Path) -> dict[tuple[int, int], int]:
    """Pair -> number of cells of a grid that its matches are in, in the photograph where they are in fewer."""
    opened = pycolmap.Database.open(database)
    places, cells = places_of_features(opened), {}
    for image in opened.read_all_images():
        camera = opened.read_camera(image.camera_id)
        cell = max(camera.width, camera.height) / _CELLS
        cells[image.image_id] = (places(image.image_id) / cell).astype(int) @ (1, _CELLS + 1)
    found = {}
    for pair in map(pycolmap.pair_id_to_image_pair, opened.read_two_view_geometry_num_inliers()[0]):
        matches = opened.read_two_view_geometry(*pair).inlier_matches
        found[pair] = min(len(np.unique(cells[number][rows])) for number, rows in zip(pair, matches.T, strict=True))
    opened.close()
    return {pair: num for pair, num in found.items() if num}


def turns_by_pairs(pycolmap: Any, database: Path, relative_focal: float, seed: int) -> dict[str, Any]:
    """Name -> rotation from world to camera [3, 3] of photographs, by their verified pairs alone.

    relative_focal: focal length, relative to the longer side. Empty if most pairs do not agree with rotations by the
    other pairs: those are few, or of other lenses.
    """
    model, edges = _pair_rotations(pycolmap, database, relative_focal, seed)
    num_agreeing, part = 0, np.random.default_rng(seed).permutation(len(edges)) % _PARTS
    for number in range(_PARTS):
        others = {pair: edge for (pair, edge), one in zip(edges.items(), part, strict=True) if one != number}
        turns = _averaged_rotations(pycolmap, model, others, seed)
        num_agreeing += sum(_agrees(turns, pair, edge) for pair, edge in edges.items() if pair not in others)
    if num_agreeing < _MIN_AGREEING * len(edges):
        return {}
    turns = _averaged_rotations(pycolmap, model, edges, seed)
    return {model.images[number].name: turn.tolist() for number, turn in turns.items()}


def _pair_rotations(
    pycolmap: Any, database: Path, relative_focal: float, seed: int
) -> tuple[Any, dict[tuple[int, int], Any]]:
    """A model of all photographs, without poses, and a `PoseGraphEdge` of each verified pair."""
    opened = pycolmap.Database.open(database)
    places, model, ends = places_of_features(opened), pycolmap.Reconstruction(), {}
    for image in opened.read_all_images():
        camera = opened.read_camera(image.camera_id)
        width, height = camera.width, camera.height
        camera.model = pycolmap.CameraModelId.SIMPLE_PINHOLE
        camera.params = [relative_focal * max(width, height), width / 2, height / 2]
        if not model.exists_camera(camera.camera_id):
            model.add_camera_with_trivial_rig(camera)
        empty = pycolmap.Image(image.name, np.zeros((0, 2)), camera.camera_id, image.image_id)
        model.add_image_with_trivial_frame(empty)
        ends[image.image_id] = camera, places(image.image_id)
    pairs = sorted(map(pycolmap.pair_id_to_image_pair, opened.read_two_view_geometry_num_inliers()[0]))
    matches = [opened.read_two_view_geometry(*pair).inlier_matches for pair in pairs]
    opened.close()
    options = pycolmap.TwoViewGeometryOptions(compute_relative_pose=True)
    options.ransac.random_seed, options.ransac.max_num_trials = seed, _MAX_TRIALS
    calls = (
        partial(pycolmap.estimate_calibrated_two_view_geometry, *ends[first], *ends[second], matched, options)
        for (first, second), matched in zip(pairs, matches, strict=True)
    )
    return model, {
        pair: pycolmap.PoseGraphEdge(cam2_from_cam1=found.cam2_from_cam1, num_matches=len(found.inlier_matches))
        for pair, found in zip(pairs, run_in_threads(calls, num_cores()), strict=True)
        if found.cam2_from_cam1 is not None
    }


def _averaged_rotations(
    pycolmap: Any, model: Any, edges: Mapping[tuple[int, int], Any], seed: int
) -> dict[int, np.ndarray]:
    """Rotations from world to camera of the photographs that the pairs connect (Chatterjee and Govindu 2013)."""
    model, graph = pycolmap.Reconstruction(model), pycolmap.PoseGraph()
    for pair, edge in edges.items():
        graph.add_edge(*pair, edge)
    options = pycolmap.RotationEstimatorOptions(random_seed=seed, max_rotation_error_deg=_MAX_TURN_ERROR)
    if not edges or not pycolmap.run_rotation_averaging(options, graph, model, []):
        return {}
    return {number: model.images[number].cam_from_world().rotation.matrix() for number in model.reg_image_ids()}


def _agrees(turns: Mapping[int, np.ndarray], pair: tuple[int, int], edge: Any) -> bool:
    """Whether the rotations of both photographs are known and differ by that of their matches."""
    if not turns.keys() >= set(pair):
        return False
    first, second = (turns[number] for number in pair)
    cosine = (np.trace(edge.cam2_from_cam1.rotation.matrix() @ first @ second.T) - 1) / 2
    return bool(cosine > np.cos(np.radians(_MAX_TURN_ERROR)))

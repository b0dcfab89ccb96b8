"""The process in which pycolmap runs: features, matches and incremental mapping of one scene.

pycolmap has its own copy of SQLite. A second copy in the same process, such as Python's, that opens the same
database breaks its POSIX locks (https://www.sqlite.org/howtocorrupt.html, section 2.2.1), so this process does not
import `sqlite3`. It can also be killed at any time; otherwise, a call of pycolmap cannot be interrupted.

colmap_process.py calls `main`. The job, a JSON object, is the first line of the standard input, which stays open as
long as the parent lives. Messages, one JSON object per line after MARK, go to the standard output, among the lines that
COLMAP logs.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device.launch import ceil_div
from splat_cli.processes.child_process import end_with_parent

MARK = "@splat "
_MIN_MODEL_SIZE = 3
_BLOCKS = 8
_MIN_BLOCK, _MAX_BLOCK = 5, 50
_LISTED_BLOCK = 100
_MIN_LOCATIONS = 5
_GPS_ERROR = 10.0  # metres, inlier threshold of locations
_MIN_SPREAD = 5.0  # metres, standard deviation of locations across their longest direction
_MAX_SHARE = 0.25  # maximum median error, relative to that deviation


def main() -> None:
    """Run the job that standard input describes."""
    job = json.loads(sys.stdin.readline())
    end_with_parent()
    import pycolmap

    pycolmap.logging.logtostderr = True
    pycolmap.set_random_seed(job["seed"])
    scene = Path(job["scene"])
    images, database = scene / "images", scene / "database.db"
    _register(pycolmap, database, images, job)
    _extract(pycolmap, database, images, job)
    _match(pycolmap, database, job)
    models = _map(pycolmap, database, images, scene / "sparse", job)
    _send(models=len(models), **_keep_largest(pycolmap, models, scene / "sparse" / "0", job))


def _send(**message: Any) -> None:
    """Write a message in a single call, so that output of other threads does not split the line."""
    os.write(1, f"\n{MARK}{json.dumps(message)}\n".encode())


def _register(pycolmap: Any, database: Path, images: Path, job: Mapping[str, Any]) -> None:
    """Register photographs and cameras: one camera per group, and one for each other photograph.

    Before feature extraction: COLMAP then skips what an interrupted process has done.
    """
    if _num_registered(pycolmap, database) == len(job["names"]):
        return
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()
    _num_registered(pycolmap, database)  # creates the file
    reader = pycolmap.ImageReaderOptions(camera_model=job["camera_model"])
    grouped = {name for group in job["groups"] for name in group}
    others = [name for name in job["names"] if name not in grouped]
    batches = [(group, pycolmap.CameraMode.SINGLE) for group in job["groups"]]
    for names, mode in [*batches, *([(others, pycolmap.CameraMode.AUTO)] if others else [])]:
        pycolmap.import_images(database, images, mode, names, reader)


def _num_registered(pycolmap: Any, database: Path) -> int:
    opened = pycolmap.Database.open(database)
    num: int = opened.num_images()
    opened.close()
    return num


def _extract(pycolmap: Any, database: Path, images: Path, job: Mapping[str, Any]) -> None:
    """Extract features of the registered photographs."""
    _send(phase="features", total=len(job["names"]))
    pycolmap.extract_features(database, images, image_names=job["names"])


def _match(pycolmap: Any, database: Path, job: Mapping[str, Any]) -> None:
    """Match the job's pairs, or all, in blocks, for progress."""
    num, pairs = len(job["names"]), job["pairs"]
    _send(phase="pairs", total=num * (num - 1) // 2 if pairs is None else len(pairs))
    verification = pycolmap.TwoViewGeometryOptions()
    verification.ransac.random_seed = job["seed"]
    if pairs is None:
        pairing = pycolmap.ExhaustivePairingOptions()
        pairing.block_size = min(max(ceil_div(num, _BLOCKS), _MIN_BLOCK), _MAX_BLOCK)
        pycolmap.match_exhaustive(database, pairing_options=pairing, verification_options=verification)
    elif any(" " in name for name in job["names"]):  # spaces separate the names in a list of pairs
        pycolmap.match_sequential(database, verification_options=verification)
    else:
        with tempfile.TemporaryDirectory() as folder:
            listed = Path(folder) / "pairs.txt"
            listed.write_text("".join(f"{first} {second}\n" for first, second in pairs), encoding="utf-8")
            listing = pycolmap.ImportedPairingOptions(match_list_path=listed, block_size=_LISTED_BLOCK)
            pycolmap.match_image_pairs(database, pairing_options=listing, verification_options=verification)


def _map(pycolmap: Any, database: Path, images: Path, sparse: Path, job: Mapping[str, Any]) -> dict[int, Any]:
    num, seed = len(job["names"]), job["seed"]
    _send(phase="placed", total=num)
    options = pycolmap.IncrementalPipelineOptions(min_model_size=min(_MIN_MODEL_SIZE, num), random_seed=seed)
    options.mapper.random_seed = options.triangulation.random_seed = seed
    models: dict[int, Any] = pycolmap.incremental_mapping(
        database, images, sparse, options=options, next_image_callback=lambda: _send(placed=1)
    )
    return models


def _keep_largest(pycolmap: Any, models: dict[int, Any], target: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Write the model with the most photographs to `target`, aligned to GPS data; returns its statistics."""
    if not models:
        return {}
    largest = max(models.values(), key=lambda model: model.num_reg_images())
    gps_error = _align(pycolmap, largest, job["locations"], job["seed"])
    target.mkdir(parents=True, exist_ok=True)
    largest.write(target)
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

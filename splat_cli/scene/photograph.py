"""Measures of photographs that need no poses: sharpness, brightness, duplicates, points that two of them share."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import num_cores
from splat_cli.errors import SplatError
from splat_cli.io.image_files import open_image
from splat_cli.processes.child_process import end_with_parent, ending, kill, start_worker
from splat_cli.processes.threads import run_in_threads
from splat_cli.scene.colmap.model import SPHERE
from splat_cli.terminal.interrupt import kept_signal_handlers

_SIDE, _FEATURE_SIDE = 800, 480  # longer side in pixels, for sharpness and for features
_NUM_TILES = 8  # per side
_FINE, _COARSE = 1, 4  # pixels between the values that are compared for sharpness
_GAMMA = 2.2
_NUM_FEATURES = 600
_PEAK = 0.003  # contrast of a feature; half of COLMAP's: small copies have few
_NUM_WORDS = 1000
_NUM_SIMILAR, _NUM_NEXT = 7, 2  # pairs per photograph that are matched: by appearance, and by order
_RATIO = 0.8  # of distances to the best and to the second-best match (Lowe 2004, section 7.1)
_MAX_ERROR = 2.0  # pixels from the epipolar line
_TRIALS = (50, 500)  # of RANSAC
_STRONG = 0.6  # ratio of matches that are hardly ever wrong
_SAME = 2.0  # of 255: mean difference of thumbnails of two photographs of one moment
_LEAST = 8  # photographs of a child process, which starts in about the time of five
_PROGRAM = f"from {__name__} import main; main()"

Finder = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Luminance float32 [H, W] of 0 to 1 -> pixels float32 [n, 2], descriptors uint8 [n, 128]."""


@dataclass(frozen=True, eq=False)
class Features:
    """SIFT features of a small copy: pixels float32 [n, 2], descriptors float32 [n, 128] of length 1, light [n].

    width, height: of the small copy; light: log2 of the linear luminance of each.
    """

    width: int
    height: int
    places: np.ndarray
    descriptors: np.ndarray
    light: np.ndarray


@dataclass(frozen=True, eq=False)
class Photograph:
    """Measures of a photograph. sharpness: 0 (blurred) to about 0.3; thumbnail: luminance float32 [16, 16].

    features: None without pycolmap.
    """

    path: Path
    width: int
    height: int
    sharpness: float
    thumbnail: np.ndarray
    features: Features | None


@dataclass(frozen=True)
class Pair:
    """Two photographs, by number, and what they share.

    num_shared: matches that agree with one movement of the camera; moved: fraction of the best matches that do not;
    stops: how much brighter the second shows the same points, log2; shift: median distance of a point's two pixels,
    relative to the width.
    """

    first: int
    second: int
    num_shared: int
    moved: float
    stops: float
    shift: float


def measure(paths: Sequence[Path], progress: Callable[[int], object]) -> list[Photograph]:
    """The photographs that can be decoded. progress: called with 1 for each file. SplatError if a child ends."""
    num = min(num_cores(), len(paths) // _LEAST)
    found = []
    for photograph in _measured_by_children(paths, num) if num > 1 else _all_measured(paths):
        progress(1)
        if photograph is not None:
            found.append(photograph)
    return found


def _all_measured(paths: Sequence[Path]) -> Iterator[Photograph | None]:
    find = _feature_finder()
    return (_measured(path, find) for path in paths)


def _measured_by_children(paths: Sequence[Path], num: int) -> Iterator[Photograph | None]:
    """The same from `num` child processes, which run `main`: threads would wait, as SIFT holds the lock of Python."""
    with ExitStack() as started:
        processes = [start_worker(_PROGRAM) for _ in range(num)]
        for number, process in enumerate(processes):
            started.callback(kill, process)
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it has ended: named below
                process.stdin.write(json.dumps([str(path) for path in paths[number::num]]).encode() + b"\n")
                process.stdin.flush()
        for number, path in enumerate(paths):
            process = processes[number % num]
            assert process.stdout is not None
            try:
                yield pickle.load(process.stdout)
            except (EOFError, pickle.UnpicklingError):
                reason = ending(process.wait())
                raise SplatError(f"looking at {path} failed ({reason}): leave it out, or save it again") from None


def main() -> None:
    """Write the photographs that the first line of standard input lists to standard output, as pickles."""
    paths = map(Path, json.loads(sys.stdin.buffer.readline()))
    end_with_parent()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # discards messages of COLMAP
    for photograph in _all_measured(list(paths)):
        pickle.dump(photograph, answers)
        answers.flush()


def _feature_finder() -> Finder | None:
    """COLMAP's SIFT; None without pycolmap."""
    if importlib.util.find_spec("pycolmap") is None:
        return None
    pycolmap = import_pycolmap()
    if not hasattr(pycolmap, "FeatureExtractor"):  # older versions
        return None
    pycolmap.logging.minloglevel = pycolmap.logging.Level.WARNING.value
    options = pycolmap.FeatureExtractionOptions()
    options.sift.max_num_features = _NUM_FEATURES
    options.sift.first_octave, options.sift.peak_threshold = 0, _PEAK
    sift: Any = pycolmap.FeatureExtractor.create(options, pycolmap.Device.cpu)

    def find(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keypoints, descriptors = sift.extract_from_float32_array(picture)
        return np.array([(one.x, one.y) for one in keypoints], np.float32).reshape(-1, 2), descriptors.data

    return find


def import_pycolmap() -> Any:
    """The module pycolmap without its SIGTERM handler, which ends the program at once with a stack trace.

    Call it in the main thread, the only one that can restore handlers.
    """
    with kept_signal_handlers():
        import pycolmap
    return pycolmap


def _measured(path: Path, find: Finder | None) -> Photograph | None:
    try:
        with open_image(path) as image:
            width, height = image.size
            image.draft("L", (_SIDE, _SIDE))
            large = image.convert("L")
    except Exception:  # damaged files: decoders raise exceptions of any type
        return None
    large.thumbnail((_SIDE, _SIDE))
    small = large.copy()
    small.thumbnail((_FEATURE_SIDE, _FEATURE_SIDE))
    thumbnail = np.asarray(small.resize((16, 16)), np.float32)
    features = None if find is None else _features(np.asarray(small, np.float32) / 255, find)
    return Photograph(path, width, height, sharpness(np.asarray(large, np.float32)), thumbnail, features)


def sharpness(picture: np.ndarray) -> float:
    """Differences of neighbours relative to differences across _COARSE pixels, minus those of a ramp.

    picture: luminance float32 [H, W]. Median over the half of the tiles with the most contrast; of four directions, the
    one with the least, because a moving camera blurs in one direction.
    """
    rows, columns = (side // _NUM_TILES for side in picture.shape)
    if min(rows, columns) <= _COARSE:
        return 0.0
    picture = picture[: rows * _NUM_TILES, : columns * _NUM_TILES]
    fine, coarse = (
        np.stack([_contrast(picture, step, *way) for way in ((0, 1), (1, 0), (1, 1), (1, -1))])
        for step in (_FINE, _COARSE)
    )
    contrast = coarse.min(axis=0)
    ratio = (fine / (coarse + 1e-6)).min(axis=0)
    return float(np.median(ratio[contrast >= np.median(contrast)])) - _FINE / _COARSE


def _contrast(picture: np.ndarray, step: int, down: int, right: int) -> np.ndarray:
    """Root mean square difference of pixels `step` apart, per tile [_NUM_TILES, _NUM_TILES]."""
    square = (np.roll(picture, (step * down, step * right), (0, 1)) - picture) ** 2
    rows, columns = (side // _NUM_TILES for side in picture.shape)
    return np.sqrt(square.reshape(_NUM_TILES, rows, _NUM_TILES, columns).mean(axis=(1, 3)))


def _features(picture: np.ndarray, find: Finder) -> Features:
    places, descriptors = find(picture)
    descriptors = descriptors.astype(np.float32).reshape(len(places), 128)
    descriptors = descriptors / np.maximum(np.linalg.norm(descriptors, axis=1, keepdims=True), 1e-6)
    x, y = places.astype(int).T if len(places) else np.zeros((2, 0), int)
    height, width = picture.shape
    light = _GAMMA * np.log2(picture[y.clip(0, height - 1), x.clip(0, width - 1)] + 1 / 64)
    return Features(width, height, places, descriptors, light)


def find_pairs(photographs: Sequence[Photograph], are_spheres: bool = False) -> list[Pair]:
    """Matches of each photograph with the next ones and with those that look most like it; empty without features.

    are_spheres: whether the photographs are equirectangular, 360 by 180 degrees.
    """
    features = [one.features for one in photographs if one.features is not None]
    if len(features) < len(photographs) or len(features) < 2:
        return []
    import_pycolmap()  # before threads do
    calls = (partial(_pair, i, j, features[i], features[j], are_spheres) for i, j in sorted(_candidates(features)))
    return list(run_in_threads(calls, num_cores()))


def _candidates(features: Sequence[Features]) -> set[tuple[int, int]]:
    """Pairs to match: neighbours in order, and those with the most similar visual words (Sivic and Zisserman 2003)."""
    num = len(features)
    found = {(i, j) for i in range(num) for j in range(i + 1, min(i + 1 + _NUM_NEXT, num))}
    everything = np.concatenate([one.descriptors for one in features])
    if len(everything) < num:
        return found
    words = everything[np.random.default_rng(0).permutation(len(everything))[:_NUM_WORDS]]
    counts = np.stack(
        [np.bincount((one.descriptors @ words.T).argmax(axis=1), minlength=len(words)) for one in features]
    )
    rarity = np.log(num / np.maximum((counts > 0).sum(axis=0), 1))
    weights = np.sqrt(counts) * rarity
    weights = weights / np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-6)
    similar = weights @ weights.T
    np.fill_diagonal(similar, -1)
    for i in range(num):
        best = np.argsort(-similar[i], kind="stable")[: min(_NUM_SIMILAR, num - 1)]
        found |= {(min(i, int(j)), max(i, int(j))) for j in best}
    return found


def _pair(i: int, j: int, first: Features, second: Features, are_spheres: bool) -> Pair:
    import pycolmap

    rows, columns, ratio = _matches(first.descriptors, second.descriptors)
    if len(rows) < 8:
        return Pair(i, j, 0, 0.0, 0.0, 1.0)
    options = pycolmap.RANSACOptions(max_error=_MAX_ERROR, min_num_trials=_TRIALS[0], max_num_trials=_TRIALS[1])
    options.random_seed = 0
    a, b = first.places[rows].astype(float), second.places[columns].astype(float)
    if are_spheres:
        found: Any = pycolmap.estimate_essential_matrix(a, b, _sphere(first), _sphere(second), options)
    else:
        found = pycolmap.estimate_fundamental_matrix(a, b, options)
    if found is None:
        return Pair(i, j, 0, 0.0, 0.0, 1.0)
    agrees = np.asarray(found["inlier_mask"], bool)
    strong = ratio < _STRONG
    moved = float(np.mean(~agrees[strong])) if strong.any() else 0.0
    stops = float(np.median((second.light[columns] - first.light[rows])[agrees])) if agrees.any() else 0.0
    shift = float(np.median(np.linalg.norm(a - b, axis=1)[agrees])) / first.width if agrees.any() else 1.0
    return Pair(i, j, int(agrees.sum()), moved, stops, shift)


def _sphere(features: Features) -> Any:
    import pycolmap

    return pycolmap.Camera.create_from_model_name(1, SPHERE, 1.0, features.width, features.height)


def _matches(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of both that are each other's best match, and the ratio of distances to the best and the second best."""
    if min(len(first), len(second)) < 2:
        return np.zeros(0, int), np.zeros(0, int), np.zeros(0)
    similar = first @ second.T
    best, back = similar.argmax(axis=1), similar.argmax(axis=0)
    top = np.partition(similar, -2, axis=1)[:, -2:]
    far, near = np.sqrt(np.maximum(2 - 2 * top, 0)).T
    ratio = near / np.maximum(far, 1e-6)
    kept = np.flatnonzero((back[best] == np.arange(len(first))) & (ratio < _RATIO))
    return kept, best[kept], ratio[kept]

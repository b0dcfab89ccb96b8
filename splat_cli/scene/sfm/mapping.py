"""Features, matches and incremental mapping by pycolmap, with progress."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.errors import SceneError, UsageError

EXHAUSTIVE_LIMIT = 200  # photographs up to which all pairs are matched
_POLL_SECONDS = 0.5
_FEW_REGISTERED = 0.8
_MIN_MODEL_SIZE = 3

Counting = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]
"""(label, total) -> context manager of a function to call with the number of things just done."""


@dataclass(frozen=True)
class Mapping:
    """What structure from motion found: photographs placed, points, mean error in pixels, mean track length."""

    num_photographs: int
    num_registered: int
    num_points: int
    error: float
    track_length: float
    num_models: int

    def advice(self) -> list[str]:
        """What to do about photographs that were not registered; empty where nearly all were."""
        if self.num_registered >= _FEW_REGISTERED * self.num_photographs:
            return []
        lines = [f"Only {self.num_registered} of {self.num_photographs} photographs were registered. What helps:"]
        if self.num_models > 1:
            lines.append(
                f"- the photographs fell into {self.num_models} groups: add some that show parts of two groups"
            )
        return [*lines, "- photographs that overlap by two thirds, taken while moving, not while turning on the spot",
                "- sharp photographs of one exposure; little glass, water or sky",
                "- --matching exhaustive, if they are in no order"]  # fmt: skip


def map_photographs(
    scene: Path, names: list[str], matching: str, camera_model: str, one_camera: bool, seed: int, counting: Counting
) -> Mapping:
    """Makes scene/sparse/0 of scene/images; leaves scene/database.db.

    matching: "exhaustive", "sequential", or "auto", which takes the first for up to EXHAUSTIVE_LIMIT photographs.
    UsageError where pycolmap is missing, SceneError where no two photographs fit together.
    """
    pycolmap = _pycolmap()
    pycolmap.set_random_seed(seed)
    images, database = scene / "images", scene / "database.db"
    reader = pycolmap.ImageReaderOptions(camera_model=camera_model)
    mode = pycolmap.CameraMode.SINGLE if one_camera else pycolmap.CameraMode.AUTO
    with _watched(counting, "features", len(names), database, "keypoints"):
        pycolmap.extract_features(database, images, camera_mode=mode, reader_options=reader)
    exhaustive = matching == "exhaustive" or (matching == "auto" and len(names) <= EXHAUSTIVE_LIMIT)
    num_pairs = len(names) * (len(names) - 1) // 2 if exhaustive else 10 * len(names)
    with _watched(counting, "pairs of photographs", num_pairs, database, "two_view_geometries"):
        match = pycolmap.match_exhaustive if exhaustive else pycolmap.match_sequential
        verification = pycolmap.TwoViewGeometryOptions()
        verification.ransac.random_seed = seed
        match(database, verification_options=verification)
    options = pycolmap.IncrementalPipelineOptions(min_model_size=min(_MIN_MODEL_SIZE, len(names)), random_seed=seed)
    options.mapper.random_seed = options.triangulation.random_seed = seed
    with counting("photographs placed", len(names)) as placed:
        models = pycolmap.incremental_mapping(
            database, images, scene / "sparse", options=options, next_image_callback=lambda: placed(1)
        )
    return _keep_largest(models, scene, len(names))


def _keep_largest(models: dict[int, Any], scene: Path, num_photographs: int) -> Mapping:
    """Puts the model with the most photographs into sparse/0."""
    if not models:
        raise SceneError(
            f"no two of the {num_photographs} photographs fit together: take more that overlap by two thirds, moving "
            "between them, and keep them sharp"
        )
    largest = max(models.values(), key=lambda model: model.num_reg_images())
    target = scene / "sparse" / "0"
    target.mkdir(parents=True, exist_ok=True)
    largest.write(target)
    return Mapping(
        num_photographs, largest.num_reg_images(), largest.num_points3D(), largest.compute_mean_reprojection_error(),
        largest.compute_mean_track_length(), len(models),
    )  # fmt: skip


@contextmanager
def _watched(counting: Counting, label: str, total: int, database: Path, table: str) -> Iterator[None]:
    """Shows how the rows of the database's table grow while pycolmap works."""
    done = threading.Event()
    with counting(label, total) as advance:

        def watch() -> None:
            seen = 0
            while not done.wait(_POLL_SECONDS):
                rows = _num_rows(database, table)
                advance(max(0, rows - seen))
                seen = max(seen, rows)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _num_rows(database: Path, table: str) -> int:
    """0 where the database is busy."""
    with suppress(sqlite3.Error):
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=0.1)
        try:
            return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
        finally:
            connection.close()
    return 0


def _pycolmap() -> Any:
    try:
        import pycolmap
    except ImportError:
        raise UsageError("structure from motion needs pycolmap: pip install 'splat-cli[sfm]'") from None
    pycolmap.logging.minloglevel = int(pycolmap.logging.Level.ERROR)
    return pycolmap

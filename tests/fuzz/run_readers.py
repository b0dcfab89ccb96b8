"""Readers of splats, of the files of a run, and of files of settings."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from splat_cli.commands.batch import plan_batch
from splat_cli.config.presets import read_settings
from splat_cli.device import Backend, open_backend
from splat_cli.field.color_field import ColorField, FieldShape, field_bounds
from splat_cli.field.file import read_field, write_field
from splat_cli.field.hash_grid import GridShape
from splat_cli.gaussians.formats import FORMATS, format_for, read_splats
from splat_cli.gaussians.formats.table import write_as
from splat_cli.render.iter_state import ITER_STATE_DTYPE
from splat_cli.report.charts import curves, measured_views
from splat_cli.report.run_data import read_run_data
from splat_cli.run.checkpoints.file import Checkpoint, read_checkpoint, write_checkpoint
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.cameras_json import read_cameras, write_cameras
from splat_cli.scene.split import read_split
from splat_cli.scene.trajectories.camera_path import read_path
from tests.fuzz.containers import (
    forge_checkpoint,
    forge_glb,
    forge_npz,
    forge_sog,
    forge_spz,
)
from tests.fuzz.records import forge_ply
from tests.fuzz.target import Target
from tests.fuzz.trees import forge_json, forge_json_lines, forge_toml
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views


def _splats(suffix: str) -> Target:
    def prepare(folder: Path) -> Path:
        write_as(format_for(Path(f"a{suffix}")), folder / f"a{suffix}", some_splats(6, 1))
        return folder / f"a{suffix}"

    return Target(f"splats ({suffix})", prepare, lambda folder: read_splats(folder / f"a{suffix}"), _FORGES.get(suffix))


def _field(folder: Path) -> Path:
    splats = some_splats(6, 0)
    shape = FieldShape(GridShape(3, levels=2, table_size=64, features=2, base_resolution=2), hidden=(16,), appearance=2)
    field = ColorField(_cpu(), shape, field_bounds(splats.means), 2, 6, np.random.default_rng(0))
    write_field(folder / "field.npz", field, splats, ["a.jpg", "b.jpg"])
    return folder / "field.npz"


def _read_field(folder: Path) -> None:
    saved = read_field(folder / "field.npz")
    saved.open(_cpu(), len(saved.splats))
    saved.embedding(None)


def _cpu() -> Backend:
    return open_backend("cpu", threads=1)


def _cameras_json(folder: Path) -> Path:
    write_cameras(folder / "cameras.json", ring_of_views(2))
    return folder / "cameras.json"


def _camera_path(folder: Path) -> Path:
    frames = [{"camera_to_world": np.eye(4).ravel().tolist(), "fov": 50.0}]
    document = {"camera_path": frames, "render_width": 64, "render_height": 48, "fps": 24}
    (folder / "path.json").write_text(json.dumps(document))
    return folder / "path.json"


def _split(folder: Path) -> Path:
    (folder / "split.json").write_text(json.dumps({"train": ["a.jpg"], "test": ["b.jpg", "é.jpg"]}))
    return folder / "split.json"


def _settings(folder: Path) -> Path:
    (folder / "preset.toml").write_text(
        'steps = 100\nlr_sh0 = 1e-3\nsave_at = [1, 2]\neval = true\nimages = "photos"\n'
    )
    return folder / "preset.toml"


def _batch(folder: Path) -> Path:
    (folder / "scenes.toml").write_text(
        'steps = 9\n[[scene]]\npath = "a"\n[[scene]]\npath = "b"\nname = "c"\nseed = 3\n'
    )
    return folder / "scenes.toml"


def _plan_batch(folder: Path) -> None:
    for job in plan_batch([folder / "scenes.toml"], folder / "out", None, {}):
        assert job.run.parent == folder / "out"


def _checkpoint(folder: Path) -> Path:
    num, rows = 5, 23
    planes = {"params": np.ones((rows, num), np.float32), "moments": np.ones((14, num), np.float32)}
    state = {name: np.zeros((), ITER_STATE_DTYPE[name]).tolist() for name in ITER_STATE_DTYPE.names or ()}
    metadata = {
        "seconds": 1.5,
        "capacity": 4096,
        "size": 1.0,
        "removed": 0,
        "views": ["a.jpg", "b.jpg"],
        "state": state | {"step": 7, "num_splats": num},
        "random": np.random.default_rng(0).bit_generator.state,
    }
    path = folder / "step_7.npz"
    write_checkpoint(path, Checkpoint(7, {**planes, "stats": np.ones((2, num), np.float32)}, metadata))
    return path


def _record(name: str, content: object, read: Callable[[RunDir], object]) -> Target:
    """A JSON file of a run's folder."""

    def prepare(folder: Path) -> Path:
        (folder / "config.toml").write_text("steps = 9\n")
        (folder / name).write_text(json.dumps(content) + "\n")
        return folder / name

    forge = forge_json_lines if name.endswith("l") else forge_json
    return Target(name, prepare, lambda folder: read(RunDir(folder)), forge)


def _read_run_data(run: RunDir) -> None:
    data = read_run_data(run)
    curves(data)
    measured_views(data)


_SCORE = {"psnr": 20.5, "ssim": 0.7}
_METRICS = {"protocol": "a", "steps": {"7": {**_SCORE, "per_image": {"a.jpg": _SCORE, "b.jpg": _SCORE}}}}
_LOG = {"step": 7, "loss": 0.1, "psnr": 20.0, "num_splats": 5, "memory_bytes": 5, "phases": {"a": 1.0}, "warning": "b"}
_RESPONSE = {"center": [0.1, -0.1], "vignetting": [[-0.2, 0.1, 0]] * 3, "response": [[0.1, 0.2]] * 3}
_RESULT = {"steps": 7, "num_splats": 5, "seconds": 1.5, **_SCORE}
_FORGES = {".glb": forge_glb, ".sog": forge_sog, ".spz": forge_spz, ".ply": forge_ply, ".compressed.ply": forge_ply}


RUN_TARGETS = [
    *(_splats(found.suffix) for found in FORMATS.values()),
    Target("field.npz", _field, _read_field, forge_npz),
    Target("checkpoint", _checkpoint, lambda folder: read_checkpoint(folder / "step_7.npz"), forge_checkpoint),
    Target("cameras.json", _cameras_json, lambda folder: read_cameras(folder / "cameras.json"), forge_json),
    Target("path.json", _camera_path, lambda folder: read_path(folder / "path.json"), forge_json),
    Target("split.json", _split, lambda folder: read_split(folder / "split.json"), forge_json),
    Target("preset.toml", _settings, lambda folder: read_settings(folder / "preset.toml"), forge_toml),
    Target("scenes.toml", _batch, _plan_batch, forge_toml),
    _record("metrics.json", _METRICS, _read_run_data),
    _record("train.jsonl", _LOG, _read_run_data),
    _record("result.json", _RESULT, lambda run: run.result()),
    _record("background.json", {"color": [0.1, 0.2, 0.3]}, lambda run: run.background()),
    _record("camera_response.json", {"cameras": {"1": _RESPONSE}}, lambda run: run.responses()),
]

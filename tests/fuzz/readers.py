"""Every reader of files that come from elsewhere, with a small valid input of each kind.

A target is a folder with an input, the file in it that gets damaged, and a function that reads it all the way to what
the program would use.
"""

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from splat_cli.config import TrainConfig
from splat_cli.config.presets import read_settings
from splat_cli.device import Backend, open_backend
from splat_cli.field.bounds import field_bounds
from splat_cli.field.color_field import ColorField, FieldShape
from splat_cli.field.file import read_field, write_field
from splat_cli.field.hash_grid import GridShape
from splat_cli.gaussians.formats import FORMATS, read_splats, write_splats
from splat_cli.render.iter_state import ITER_STATE_DTYPE
from splat_cli.report.curves import curves, measured_views
from splat_cli.report.run_data import read_run_data
from splat_cli.run.checkpoints.file import Checkpoint, read_checkpoint, write_checkpoint
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene import SceneOptions, load_images, read_scene
from splat_cli.scene.cameras_json import read_cameras, write_cameras
from splat_cli.scene.depth_maps import load_depth_maps
from splat_cli.scene.points.point_cloud import read_point_cloud
from splat_cli.scene.split import read_split
from splat_cli.scene.trajectories.path_file import read_path
from splat_cli.scene.view import View
from splat_cli.scene.zipped import unzipped_scene
from splat_cli.tools.batch_list import plan_batch
from tests.fuzz.containers import (
    forge_checkpoint,
    forge_glb,
    forge_npz,
    forge_photograph,
    forge_sog,
    forge_spz,
    forge_zip,
)
from tests.fuzz.records import COLMAP, forge_colmap_text, forge_csv, forge_model_member, forge_ply
from tests.fuzz.trees import forge_json, forge_json_lines, forge_toml
from tests.gaussians.some_splats import some_splats
from tests.scene.colmap_cameras import distorted_cameras
from tests.scene.depth_files import write_las, write_map
from tests.scene.export_files import (
    write_bundler,
    write_metashape,
    write_polycam,
    write_realityscan,
    write_record3d,
    write_scanner_app,
)
from tests.scene.models import small_model, write_scene, write_with_observations
from tests.scene.transforms_files import NERFSTUDIO_APPLIED, write_blender, write_point_cloud, write_transforms
from tests.views import ring_of_views

Forge = Callable[[bytes, np.random.Generator], bytes]


@dataclass(frozen=True)
class Target:
    name: str
    prepare: Callable[[Path], Path]
    """Fills a folder; returns the file to damage."""
    read: Callable[[Path], object]
    """Reads from the folder."""
    forge: Forge | None = None
    """The valid file's bytes -> a whole container around wrong contents."""
    share: float = 1.0
    """Of the usual number of inputs, for readers that start a process for each."""


def _whole_scene(folder: Path) -> None:
    scene = read_scene(folder)
    load_images(scene.views, backend=open_backend("cpu", threads=1))


def _colmap(stem: str, binary: bool) -> Target:
    suffix = "bin" if binary else "txt"

    def prepare(folder: Path) -> Path:
        model = small_model(("a.png", "b.png"), distorted_cameras(40, 30)[2:4])
        write_scene(folder, model, binary)
        if binary:
            write_with_observations(folder / "sparse" / "0", model)
        return folder / "sparse" / "0" / f"{stem}.{suffix}"

    forge = COLMAP[f"{stem}.bin"] if binary else forge_colmap_text
    return Target(f"{stem}.{suffix}", prepare, _whole_scene, forge)


def _zip(folder: Path) -> Path:
    write_scene(folder, small_model(("a.png", "b.png")))
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "sparse" / "0").iterdir()):
            archive.write(path, path.name)
            path.unlink()
    return folder / "model.zip"


def _transforms(folder: Path) -> Path:
    document = {"k1": 0.01, "p1": 0.001, "applied_transform": NERFSTUDIO_APPLIED, "ply_file_path": "points.ply"}
    write_transforms(folder, ring_of_views(3), **document)
    write_point_cloud(folder / "points.ply", np.arange(9).reshape(3, 3))
    return folder / "transforms.json"


def _blender(folder: Path) -> Path:
    return write_blender(folder) / "transforms_train.json"


def _point_cloud(text: bool) -> Target:
    def prepare(folder: Path) -> Path:
        _transforms(folder)
        write_point_cloud(folder / "points.ply", np.arange(30).reshape(10, 3), np.full((10, 3), 7), text)
        return folder / "points.ply"

    return Target(f"points.ply ({'text' if text else 'binary'})", prepare, _whole_scene, forge_ply)


def _photograph(suffix: str, mode: str = "RGB") -> Target:
    def prepare(folder: Path) -> Path:
        write_scene(folder, small_model((f"a.{suffix}", "b.png")))
        path = folder / "images" / f"a.{suffix}"
        pixels = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Picture.fromarray(pixels).convert(mode).save(path)
        return path

    return Target(f"photograph ({suffix}, {mode})", prepare, _whole_scene, forge_photograph)


def _export(write: Callable[[Path, list[View]], object], file: str, forge: Forge | None) -> Target:
    """The file of an export by another program or a phone app."""

    def prepare(folder: Path) -> Path:
        write(folder, ring_of_views(3))
        return folder / file

    return Target(file, prepare, _whole_scene, forge)


def _write_bundler(folder: Path, views: list[View]) -> None:
    write_bundler(folder, views, np.eye(3), np.full((3, 3), 7), k1=0.01)


def _zipped_scene(folder: Path) -> Path:
    write_scene(folder / "scene", small_model(("a.png", "b.png")))
    with zipfile.ZipFile(folder / "scene.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "scene").rglob("*.*")):
            archive.write(path, path.relative_to(folder))
    return folder / "scene.zip"


def _read_zipped(folder: Path) -> None:
    with unzipped_scene(folder / "scene.zip") as scene:
        _whole_scene(scene)


def _mask(folder: Path) -> Path:
    write_scene(folder, small_model(("a.png", "b.png")))
    (folder / "masks").mkdir()
    path = folder / "masks" / "a.png"
    Picture.fromarray(np.eye(30, 40, dtype=np.uint8) * 255).save(path)
    return path


def _depth_map(suffix: str) -> Target:
    """Of the first of two photographs; as confidences, too, where the suffix is that of a picture."""

    def prepare(folder: Path) -> Path:
        write_scene(folder, small_model(("a.png", "b.png")))
        path = folder / "depths" / f"a{suffix}"
        write_map(path, np.linspace(1000, 3000, 30 * 40).reshape(30, 40).astype("u2" if suffix == ".png" else "f4"))
        if suffix == ".png":
            (folder / "confidence").symlink_to("depths")
        return path

    return Target(f"depth map ({suffix})", prepare, _read_depths, forge_photograph if suffix == ".png" else None)


def _depth_scales(folder: Path) -> Path:
    write_scene(folder, small_model(("a.png", "b.png")))
    write_map(folder / "depths" / "a.png", np.full((30, 40), 9, np.uint16))
    path = folder / "sparse" / "0" / "depth_params.json"
    path.write_text(json.dumps({"a": {"scale": 0.5, "offset": 0.1}, "b": {"scale": 1, "offset": 0}}))
    return path


def _read_depths(folder: Path) -> None:
    scene = read_scene(folder)
    config, nothing = TrainConfig(depth_maps="metric"), lambda line: None
    load_depth_maps(scene.views, scene.points, config, 1 << 30, nothing, nothing)


def _laser_scan(suffix: str) -> Target:
    def prepare(folder: Path) -> Path:
        write_las(folder / f"a{suffix}", np.random.default_rng(0).uniform(-5, 5, (30, 3)))
        return folder / f"a{suffix}"

    read = lambda folder: read_point_cloud(folder / f"a{suffix}")  # noqa: E731
    return Target(f"points ({suffix})", prepare, read, share=0.1)


def _splats(suffix: str) -> Target:
    def prepare(folder: Path) -> Path:
        write_splats(folder / f"a{suffix}", some_splats(6, 1))
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
    planes = {name: np.ones((rows, num), np.float32) for name in ("params", "moments1", "moments2")}
    state = {name: np.zeros((), ITER_STATE_DTYPE[name]).tolist() for name in ITER_STATE_DTYPE.names or ()}
    metadata = {
        "seconds": 1.5, "capacity": 4096, "size": 1.0, "removed": 0, "views": ["a.jpg", "b.jpg"],
        "state": state | {"step": 7, "num_splats": num}, "random": np.random.default_rng(0).bit_generator.state,
    }  # fmt: skip
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
TARGETS = [
    *(_colmap(stem, binary) for stem in ("cameras", "images", "points3D") for binary in (True, False)),
    Target("model.zip", _zip, _whole_scene, lambda whole, rng: forge_zip(whole, rng, forge_model_member)),
    Target("transforms.json", _transforms, _whole_scene, forge_json),
    Target("transforms_train.json", _blender, _whole_scene, forge_json),
    _export(write_metashape, "cameras.xml", forge_colmap_text),
    _export(write_realityscan, "registration.csv", forge_csv),
    _export(_write_bundler, "bundle.out", forge_colmap_text),
    _export(write_polycam, "keyframes/cameras/a_00.json", forge_json),
    _export(write_scanner_app, "frame_00000.json", forge_json),
    _export(write_record3d, "metadata.json", forge_json),
    Target("scene.zip", _zipped_scene, _read_zipped),
    _point_cloud(text=True),
    _point_cloud(text=False),
    *(_photograph(*kind) for kind in (("jpg",), ("jpg", "CMYK"), ("png", "RGBA"), ("png", "P"), ("tif",), ("webp",))),
    *(_depth_map(suffix) for suffix in (".png", ".npy", ".exr")),
    Target("depth_params.json", _depth_scales, _read_depths, forge_json),
    _laser_scan(".las"),
    _laser_scan(".laz"),
    Target("mask", _mask, lambda folder: load_images(read_scene(folder, SceneOptions()).views), forge_photograph),
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

"""Readers of datasets: cameras, points, photographs, masks, depth maps, exports of other programs."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from splat_cli.config import TrainConfig
from splat_cli.device import open_backend
from splat_cli.scene import SceneOptions, load_images, read_scene
from splat_cli.scene.depth_maps import load_depth_maps
from splat_cli.scene.points.point_cloud import read_point_cloud
from splat_cli.scene.view import View
from splat_cli.scene.zipped import unzipped_scene
from tests.fuzz.containers import forge_zip
from tests.fuzz.pictures import forge_photograph
from tests.fuzz.records import COLMAP, forge_colmap_text, forge_csv, forge_model_member, forge_ply
from tests.fuzz.target import Forge, Target
from tests.fuzz.trees import forge_json
from tests.scene.colmap_cameras import distorted_cameras
from tests.scene.depth_files import write_las, write_map
from tests.scene.export_files import (
    write_bundler,
    write_metashape,
    write_opensfm,
    write_polycam,
    write_realityscan,
    write_record3d,
    write_scanner_app,
)
from tests.scene.models import small_model, write_scene, write_with_observations
from tests.scene.transforms_files import NERFSTUDIO_APPLIED, write_blender, write_point_cloud, write_transforms
from tests.views import ring_of_views


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


def _write_opensfm(folder: Path, views: list[View]) -> None:
    write_opensfm(folder, views, np.eye(3), np.full((3, 3), 7), k1=0.01)


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
    """Depth map of the first of two photographs; also as confidences if the suffix belongs to a picture."""

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


SCENE_TARGETS = [
    *(_colmap(stem, binary) for stem in ("cameras", "images", "points3D") for binary in (True, False)),
    Target("model.zip", _zip, _whole_scene, lambda whole, rng: forge_zip(whole, rng, forge_model_member)),
    Target("transforms.json", _transforms, _whole_scene, forge_json),
    Target("transforms_train.json", _blender, _whole_scene, forge_json),
    _export(write_metashape, "cameras.xml", forge_colmap_text),
    _export(write_realityscan, "registration.csv", forge_csv),
    _export(_write_bundler, "bundle.out", forge_colmap_text),
    _export(_write_opensfm, "opensfm/reconstruction.json", forge_json),
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
]

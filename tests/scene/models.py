"""COLMAP models for tests: small models, and binary files with 2D points and tracks, as in real models."""

import struct

import numpy as np
from PIL import Image as Picture

from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import Camera, Image, Model

PINHOLE = Camera(1, "PINHOLE", 40, 30, (35.0, 36.0, 21.0, 13.0))


def small_model(names=("a.png", "b.png", "c.png"), cameras=(PINHOLE,)):
    """One image per name, cameras in turn, five points."""
    rng = np.random.default_rng(0)
    images = [
        Image(i + 1, cameras[i % len(cameras)].id, name, tuple(rng.normal(size=4)), tuple(rng.normal(size=3)))
        for i, name in enumerate(names)
    ]
    points, colors = rng.normal(size=(5, 3)), rng.integers(0, 256, (5, 3), dtype=np.uint8)
    return Model({camera.id: camera for camera in cameras}, images, points, colors)


def write_scene(folder, model, binary=True, place="sparse/0"):
    """Write the model, and a photograph of its camera's size for each image. Returns `folder`."""
    write_model(folder / place, model, binary)
    for image in model.images:
        path = folder / "images" / image.name
        path.parent.mkdir(parents=True, exist_ok=True)
        camera = model.cameras[image.camera_id]
        Picture.new("RGB", (camera.width, camera.height), (10 * image.id, 100, 200)).save(path)
    return folder


def write_with_observations(folder, model):
    """Rewrites images.bin and points3D.bin with 2D points and tracks of different lengths."""
    images = [struct.pack("<Q", len(model.images))]
    for count, image in enumerate(model.images):
        head = struct.pack("<I7dI", image.id, *image.quat, *image.translation, image.camera_id)
        images += [head, image.name.encode() + b"\0", struct.pack("<Q", count), b"\xff" * 24 * count]
    points = [struct.pack("<Q", len(model.points))]
    for length, (point, color) in enumerate(zip(model.points, model.colors, strict=True)):
        points += [struct.pack("<Q3d3BdQ", length, *point, *color, 0.5, length), b"\xff" * 8 * length]
    (folder / "images.bin").write_bytes(b"".join(images))
    (folder / "points3D.bin").write_bytes(b"".join(points))

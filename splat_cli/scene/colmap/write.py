"""Writing COLMAP models, binary or text, without 2D points and tracks."""

import struct
from pathlib import Path

import numpy as np

from splat_cli.scene.colmap.binary import CAMERA, IMAGE, POINT
from splat_cli.scene.colmap.model import MODEL_IDS, Image, Model

_COUNT = struct.Struct("<Q")


def write_model(folder: Path, model: Model, binary: bool = True) -> None:
    """Write cameras, images and points3D into `folder`, which is created if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = _binary(model) if binary else _text(model)
    for stem, content in contents.items():
        (folder / f"{stem}{'.bin' if binary else '.txt'}").write_bytes(content)


def _binary(model: Model) -> dict[str, bytes]:
    cameras = [
        CAMERA.pack(camera.id, MODEL_IDS[camera.model], camera.width, camera.height)
        + struct.pack(f"<{len(camera.params)}d", *camera.params)
        for camera in model.cameras.values()
    ]
    images = [
        IMAGE.pack(image.id, *image.quat, *image.translation, image.camera_id) + _name(image) + b"\0" + _COUNT.pack(0)
        for image in model.images
    ]
    points = np.zeros(len(model.points), POINT)
    points["id"] = np.arange(1, len(points) + 1)
    points["xyz"], points["rgb"] = model.points, model.colors
    return {
        "cameras": _COUNT.pack(len(cameras)) + b"".join(cameras),
        "images": _COUNT.pack(len(images)) + b"".join(images),
        "points3D": _COUNT.pack(len(points)) + points.tobytes(),
    }


def _text(model: Model) -> dict[str, bytes]:
    cameras = [
        " ".join(map(str, (camera.id, camera.model, camera.width, camera.height, *map(float, camera.params))))
        for camera in model.cameras.values()
    ]
    images = [
        " ".join(map(str, (image.id, *image.quat, *image.translation, image.camera_id))).encode()
        + b" "
        + _name(image)
        + b"\n"
        for image in model.images
    ]
    points = [
        " ".join(map(str, (number, *point, *color, 0)))
        for number, (point, color) in enumerate(zip(model.points.tolist(), model.colors.tolist(), strict=True), 1)
    ]
    return {
        "cameras": _block("# CAMERA_ID MODEL WIDTH HEIGHT PARAMS[]", cameras),
        "images": b"# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then a line of POINTS2D[]\n"
        + b"".join(image + b"\n" for image in images),
        "points3D": _block("# POINT3D_ID X Y Z R G B ERROR TRACK[]", points),
    }


def _block(title: str, lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in (title, *lines)).encode()


def _name(image: Image) -> bytes:
    return image.name.encode("utf-8", "surrogateescape")

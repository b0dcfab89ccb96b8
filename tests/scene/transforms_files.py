"""Scenes written from views, as transforms.json and as Blender's files."""

import json
from pathlib import Path

import numpy as np
import plyfile
from PIL import Image as Picture

from tests.views import ring_of_views

OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])
NERFSTUDIO_APPLIED = [[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0]]


def frame_entry(view, applied=None, **more):
    """Camera to world with OpenGL's axes, in a world to which `applied` [3, 4] was applied."""
    c2w = np.linalg.inv(view.w2c) @ OPENGL
    if applied is not None:
        scale = np.cbrt(np.linalg.det(np.array(applied)[:, :3]))
        c2w = np.vstack([applied, [0, 0, 0, 1]]) @ c2w
        c2w[:3, :3] /= scale
    return {"file_path": f"images/{view.name}", "transform_matrix": c2w.tolist(), **more}


def intrinsics(view):
    return {"fl_x": view.fx, "fl_y": view.fy, "cx": view.cx, "cy": view.cy, "w": view.width, "h": view.height}


def write_photographs(folder, views, mode="RGB"):
    for number, view in enumerate(views):
        path = folder / "images" / view.name
        path.parent.mkdir(parents=True, exist_ok=True)
        Picture.new("RGB", (view.width, view.height), (10 * number, 100, 200)).convert(mode).save(path)


def write_transforms(folder, views=None, frames=None, **document):
    """Photographs and transforms.json; `frames` and further keys override the values from the views."""
    views = views or ring_of_views(5)
    write_photographs(folder, views)
    frames = [frame_entry(view) for view in views] if frames is None else frames
    content = {**intrinsics(views[0]), "frames": frames, **document}
    (folder / "transforms.json").write_text(json.dumps(content))
    return folder


def write_point_cloud(path, positions, colors=None, text=False):
    names = [(axis, "<f4") for axis in "xyz"]
    if colors is not None:
        names += [(name, "u1") for name in ("red", "green", "blue")]
    rows = np.zeros(len(positions), names)
    for axis, column in zip("xyz", np.transpose(positions), strict=True):
        rows[axis] = column
    if colors is not None:
        for name, column in zip(("red", "green", "blue"), np.transpose(colors), strict=True):
            rows[name] = column
    plyfile.PlyData([plyfile.PlyElement.describe(rows, "vertex")], text=text).write(str(path))


def write_blender(folder, num_train=4, num_test=2, size=20):
    """RGBA photographs train/r_0.png, ..., transparent in their upper half."""
    views = ring_of_views(num_train + num_test, size, size)
    for kind, chosen in (("train", views[:num_train]), ("test", views[num_train:])):
        frames = []
        for number, view in enumerate(chosen):
            frame = frame_entry(view)
            frames.append({**frame, "file_path": f"./{kind}/r_{number}"})
            layers = np.full((size, size, 4), 200, np.uint8)
            layers[..., 3] = np.where(np.arange(size) < size // 2, 0, 255)[:, None]
            path = Path(folder) / kind / f"r_{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Picture.fromarray(layers).save(path)
        document = {"camera_angle_x": 0.7, "frames": frames}
        (folder / f"transforms_{kind}.json").write_text(json.dumps(document))
    return folder

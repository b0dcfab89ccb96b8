"""Defects of transforms.json, and frames that are left out."""

import numpy as np
import pytest

from splat_cli.errors import FormatError, SceneError
from splat_cli.scene import read_scene
from tests.scene.transforms_files import frame_entry, write_transforms
from tests.views import ring_of_views

ENDS = {f"transform_matrix_{which}": np.eye(4).tolist() for which in ("start", "end")}


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (3, "not a JSON object"),
        ({}, "has no `file_path`"),
        ({"file_path": 7}, "`file_path` is not a text"),
        ({"file_path": "x" * 5000, "transform_matrix": np.eye(4).tolist()}, "not a file name"),
        ({"file_path": "../out.jpg", "transform_matrix": np.eye(4).tolist()}, "leads out of the image folder"),
        ({"file_path": "/etc/passwd", "transform_matrix": np.eye(4).tolist()}, "leads out of the image folder"),
        ({"transform_matrix": None}, "`transform_matrix`"),
        ({**ENDS, "transform_matrix_end": "here"}, "`transform_matrix_end`"),
        ({**ENDS, "rolling_shutter": [0, 1, 0, 0]}, "not from row to row"),
        ({**ENDS, "rolling_shutter": [0.5, 0, 0.7, 0]}, "between the times 0 and 1"),
        ({**ENDS, "rolling_shutter": "yes"}, "not a list of 4 numbers"),
        ({**ENDS, "transform_matrix_end": np.diag([-1, 1, -1, 1]).tolist()}, "more than 30 degrees"),
        ({"transform_matrix": [[1, 2], [3, 4]]}, "`transform_matrix`"),
        ({"transform_matrix": np.zeros((4, 4)).tolist()}, "`transform_matrix`"),
        ({"transform_matrix": np.full((4, 4), float("nan")).tolist()}, "`transform_matrix`"),
        ({"transform_matrix": np.diag([1, 1, -1, 1]).tolist()}, "mirrors"),
        ({"transform_matrix": np.diag([1, 1.02, 1, 1]).tolist()}, "shears the picture"),
        ({"transform_matrix": [[1, 0.02, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]}, "shears the picture"),
        ({"fl_x": 300.0}, "state it along y, too"),
        ({"is_fisheye": 1}, "`is_fisheye` is '1'"),
        ({"is_fisheye": True, "camera_model": "OPENCV"}, "'OPENCV'"),
        ({"fl_x": "wide", "fl_y": 1}, "`fl_x` is not a finite number"),
        ({"fl_x": float("inf"), "fl_y": 1}, "`fl_x` is not a finite number"),
        ({"fl_x": -3, "fl_y": 1}, "focal length"),
        ({"w": 0}, "size 0x30"),
        ({"w": 30, "h": 40}, "is 40x30, but its camera is 30x40"),
        ({"camera_model": "FTHETA"}, "`angle_to_pixeldist_poly`"),
        ({"camera_model": "FTHETA", "angle_to_pixeldist_poly": [3, 20]}, "offset of the radius"),
        ({"camera_model": "FTHETA", "angle_to_pixeldist_poly": [0, 20], "linear_cde": [1, 0.1, 0]}, "shear"),
        ({"camera_model": "ORTHOPHOTO"}, "ORTHOPHOTO"),
        ({"k1": True}, "`k1` is not a finite number"),
        ({"mask_path": "../../mask.png"}, "leads out of"),
    ],
)
def test_frame_that_cannot_be_used_is_left_out(tmp_path, frame, reason):
    views = ring_of_views(2)
    wrong = frame
    if isinstance(frame, dict) and frame and "file_path" not in frame:
        wrong = frame_entry(views[1]) | frame
    write_transforms(tmp_path, views, [frame_entry(views[0]), wrong])
    scene = read_scene(tmp_path)
    assert len(scene.views) == len(scene.skipped) == 1
    assert reason in scene.skipped[0]


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{}", '{"frames": 3}', '{"frames": []}', "[" * 100_000, '{"frames": [' + "[" * 50_000]
)
def test_file_that_is_not_a_transforms_file(tmp_path, text):
    (tmp_path / "transforms.json").write_text(text)
    with pytest.raises(SceneError, match=r"transforms\.json"):
        read_scene(tmp_path)


@pytest.mark.parametrize(
    "value",
    [3, "x", [[1, 0, 0]], np.zeros((3, 4)).tolist(), np.diag([1, 2, 3, 1]).tolist(), np.diag([1, 1, -1, 1]).tolist()],
)
def test_invalid_applied_transform(tmp_path, value):
    with pytest.raises(SceneError, match="applied_transform"):
        read_scene(write_transforms(tmp_path, applied_transform=value))


@pytest.mark.parametrize("value", [3, "../points.ply", "/points.ply"])
def test_points_outside_the_scene(tmp_path, value):
    with pytest.raises(SceneError, match="ply_file_path"):
        read_scene(write_transforms(tmp_path / "scene", ply_file_path=value))


def test_missing_or_invalid_points(tmp_path):
    write_transforms(tmp_path, ply_file_path="p.ply")
    with pytest.raises(SceneError, match=r"p\.ply, which is not there"):
        read_scene(tmp_path)
    (tmp_path / "p.ply").write_text("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n1\n")
    with pytest.raises(FormatError, match=r"p\.ply is not a point cloud"):
        read_scene(tmp_path)


def test_an_applied_transform_with_numbers_too_small(tmp_path):
    applied = [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1e-320, 0, 0]]
    write_transforms(tmp_path, ring_of_views(2), applied_transform=applied)
    with pytest.raises(SceneError, match="`applied_transform` is not a rotation, scale and shift"):
        read_scene(tmp_path)

"""Camera paths from files: nerfstudio's, cameras.json, damaged ones."""

import json

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.scene.cameras_json import write_cameras
from splat_cli.scene.trajectories.camera_path import CameraPath
from tests.views import ring_of_views


def nerfstudio_path(tmp_path, **changes):
    views = ring_of_views(2)
    frames = [
        {"camera_to_world": (np.linalg.inv(view.w2c) @ np.diag([1, -1, -1, 1])).ravel().tolist(), "fov": 60}
        for view in views
    ]
    content = {"camera_path": frames, "render_width": 64, "render_height": 48, "fps": 24.0} | changes
    (tmp_path / "path.json").write_text(json.dumps(content))
    return CameraPath(str(tmp_path / "path.json")), views


@pytest.mark.parametrize("changes", [{}, {"camera_type": "perspective", "crop": None}])
def test_path_of_nerfstudio(tmp_path, changes):
    path, views = nerfstudio_path(tmp_path, **changes)
    frames, fps = path.through([])
    assert fps == 24
    for frame, view in zip(frames, views, strict=True):
        np.testing.assert_allclose(frame.w2c, view.w2c, atol=1e-12)
        assert (frame.width, frame.height) == (64, 48)
        assert frame.fy == frame.fx == pytest.approx(24 / np.tan(np.radians(30)))


def test_path_of_cameras_json(tmp_path):
    write_cameras(tmp_path / "a.json", ring_of_views(3))
    frames, fps = CameraPath(str(tmp_path / "a.json"), fps=12).through([])
    assert ([frame.name for frame in frames], fps) == (["a_00.jpg", "a_01.jpg", "a_02.jpg"], 12)


@pytest.mark.parametrize(
    "changes",
    [
        {"camera_path": []},
        {"camera_path": [{"fov": 50}]},
        {"camera_path": [{"fov": 50, "camera_to_world": [0] * 16}]},
        {"camera_path": [{"fov": 0, "camera_to_world": np.eye(4).ravel().tolist()}]},
        {"render_width": 0},
        {"render_height": None},
        {"fps": -1},
        {"camera_type": "equirectangular"},
        {"crop": {"crop_center": [0, 0, 0], "crop_scale": [1, 1, 1]}},
    ],
)
def test_broken_path_files_are_refused(tmp_path, changes):
    path, _ = nerfstudio_path(tmp_path, **changes)
    with pytest.raises(FormatError, match=r"path\.json"):
        path.through([])


@pytest.mark.parametrize(
    "changes",
    [
        {"fps": 1500 * "x"},
        {"render_width": 1500 * "x"},
        {"camera_path": [{"fov": 50, "camera_to_world": 1500 * "x"}]},
        {"camera_path": [{"fov": 1500 * "x", "camera_to_world": np.eye(4).ravel().tolist()}]},
        {"camera_path": 1500 * "x"},
    ],
)
def test_a_long_text_in_a_path_file_makes_a_short_message(tmp_path, changes):
    path, _ = nerfstudio_path(tmp_path, **changes)
    with pytest.raises(FormatError, match=r"path\.json") as error:
        path.through([])
    assert len(str(error.value).removeprefix(str(tmp_path))) < 350

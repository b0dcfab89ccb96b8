"""Reading cameras.json: our own files, other programs' files without cx and cy, and damaged files."""

import dataclasses
import json

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.scene.cameras_json import read_cameras, write_cameras
from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.lens.distortion import Division, Equirectangular, Eucm, Fov, FTheta, Polynomial
from tests.views import ring_of_views


def test_views_read_back(tmp_path):
    views = [dataclasses.replace(view, camera_id=number % 5) for number, view in enumerate(ring_of_views())]
    views[1] = dataclasses.replace(views[1], radial=(0.1, -0.02))
    lenses = [Polynomial(radial=(0.1,), fisheye=True), Fov(0.9), Division(-0.1), Eucm(0.6, 1.1), Equirectangular()]
    lenses.append(FTheta((0.1, -0.02)))
    for number, lens in enumerate(lenses, 2):
        views[number] = dataclasses.replace(views[number], distortion=lens)
    views[2] = dataclasses.replace(views[2], rolling_shutter=RollingShutter((0.1, -0.02, 0.0), (0.3, 0.0, -0.1)))
    write_cameras(tmp_path / "cameras.json", views)
    back = read_cameras(tmp_path / "cameras.json")
    for view, read in zip(views, back, strict=True):
        np.testing.assert_allclose(read.w2c, view.w2c, atol=1e-12)
        for name in (
            "name",
            "width",
            "height",
            "fx",
            "fy",
            "cx",
            "cy",
            "camera_id",
            "radial",
            "distortion",
            "rolling_shutter",
        ):
            assert getattr(read, name) == getattr(view, name)


def test_entries_are_camera_to_world_as_viewers_expect(tmp_path):
    view = ring_of_views()[3]
    write_cameras(tmp_path / "cameras.json", [view])
    (entry,) = json.loads((tmp_path / "cameras.json").read_text())
    c2w = np.linalg.inv(view.w2c)
    np.testing.assert_allclose(entry["position"], c2w[:3, 3], atol=1e-12)
    np.testing.assert_allclose(entry["rotation"], c2w[:3, :3], atol=1e-12)


def test_principal_point_defaults_to_the_middle(tmp_path):
    path = tmp_path / "cameras.json"
    write_cameras(path, ring_of_views(1))
    (entry,) = json.loads(path.read_text())
    del entry["cx"], entry["cy"]
    path.write_text(json.dumps([entry]))
    (view,) = read_cameras(path)
    assert (view.cx, view.cy) == (20, 15)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fx": None}, "camera 0: expected img_name"),
        ({"lens": {"family": "drone"}}, "camera 0: expected img_name"),
        ({"lens": {"family": "fov", "omega": float("nan")}}, "camera 0: expected img_name"),
        ({"lens": {"family": "division"}}, "camera 0: expected img_name"),
        ({"fx": 0}, "focal lengths > 0"),
        ({"k1": 0.1, "k3": 0.1}, "camera 0: its lens has `k3`, which"),
        ({"width": 0}, "not the size"),
        ({"width": 10**9}, "not the size"),
        ({"position": [0, 0]}, "expected img_name"),
        ({"fx": 1500 * "x"}, r"camera 0: expected img_name.{,350}$"),
        ({"position": [0, 0, float("nan")]}, "finite"),
        ({"position": [0, 0, 1e299]}, "below 1e"),
        ({"fx": 1e299}, "below 1e"),
        ({"fx": 1e-300}, "focal lengths > 0"),
        ({"rotation": np.zeros((3, 3)).tolist()}, "not a rotation"),
        ({"rotation": np.diag([1, 1, -1]).tolist()}, "not a rotation"),
    ],
)
def test_wrong_camera_is_refused_by_number(tmp_path, change, message):
    path = tmp_path / "cameras.json"
    write_cameras(path, ring_of_views(1))
    (entry,) = json.loads(path.read_text())
    path.write_text(json.dumps([entry | change]))
    with pytest.raises(FormatError, match=message):
        read_cameras(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", "[3]"])
def test_file_without_cameras_is_refused(tmp_path, text):
    path = tmp_path / "cameras.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"cameras\.json"):
        read_cameras(path)

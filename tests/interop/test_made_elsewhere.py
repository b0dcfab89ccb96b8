"""A PLY and cameras.json written by hand as the INRIA code lays them out: orientation and colours are right."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.cli.main import run
from splat_cli.gaussians.formats import read_splats, write_splats

C0, C1 = 0.28209479177387814, 0.4886025119029199
SIDE, FOCAL = 128, 128.0  # px
DISTANCE = 4.0
NAMES = (
    "x y z nx ny nz f_dc_0 f_dc_1 f_dc_2 " + " ".join(f"f_rest_{i}" for i in range(45)) + " opacity "
    "scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3"
).split()
BALL = {"opacity": 6.0, "scale_0": -2.3, "scale_1": -2.3, "scale_2": -2.3, "rot_0": 1.0}
EIGHTH = {"rot_0": np.cos(np.pi / 8), "rot_3": np.sin(np.pi / 8)}  # an eighth of a turn about z

SPLATS = [
    {"y": -1.2, **BALL, "color": (1, 0, 0)},  # y points down: red is at the top
    {"x": 1.2, **BALL, "color": (0, 1, 0)},
    {"y": 1.2, **BALL, "color": (0, 0, 1)},
    {"x": -1.2, **BALL, "color": (1, 1, 1)},
    {
        **BALL,
        **EIGHTH,
        "scale_0": -1.2,
        "scale_1": -3.5,
        "scale_2": -3.5,
        "color": (0, 0.5, 0),
        "f_rest_1": 0.8 / C1,
    },  # coefficient of red for z: adds red if seen along +z
]


def write_scene(folder: Path) -> None:
    """A binary little-endian PLY written only with NumPy, and a camera at z = -DISTANCE that looks along +z."""
    rows = np.zeros((len(SPLATS), len(NAMES)), "<f4")
    for row, splat in zip(rows, SPLATS, strict=True):
        colors = {f"f_dc_{i}": (level - 0.5) / C0 for i, level in enumerate(splat["color"])}
        for name, value in (splat | colors).items():
            if name != "color":
                row[NAMES.index(name)] = value
    properties = "".join(f"property float {name}\n" for name in NAMES)
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(rows)}\n{properties}end_header\n"
    (folder / "scene.ply").write_bytes(header.encode() + rows.tobytes())
    camera = {
        "id": 0,
        "img_name": "front",
        "width": SIDE,
        "height": SIDE,
        "fx": FOCAL,
        "fy": FOCAL,
        "position": [0, 0, -DISTANCE],
        "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    }
    (folder / "cameras.json").write_text(json.dumps([camera]))


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    folder = tmp_path_factory.mktemp("elsewhere")
    write_scene(folder)
    arguments = ["--cameras", str(folder / "cameras.json"), "-o", str(folder / "out"), "--device", "cpu"]
    assert run(["render", str(folder / "scene.ply"), *arguments]) == 0
    (path,) = (folder / "out").glob("*.png")
    return np.asarray(Image.open(path), np.float32) / 255


def at(picture: np.ndarray, x: float, y: float) -> np.ndarray:
    """The pixel that shows the point (x, y, 0)."""
    column, row = (int(SIDE / 2 + FOCAL * c / DISTANCE) for c in (x, y))
    return picture[row, column]


@pytest.mark.parametrize("splat", SPLATS[:4], ids=["red above", "green right", "blue below", "white left"])
def test_colors_lie_where_they_should(picture: np.ndarray, splat: dict) -> None:
    seen = at(picture, splat.get("x", 0.0), splat.get("y", 0.0))
    np.testing.assert_allclose(seen, splat["color"], atol=0.06)


def test_rotation_and_view_dependent_color(picture: np.ndarray) -> None:
    """x turns towards y: the bar goes down to the right; its red comes from f_rest_1."""
    np.testing.assert_allclose(at(picture, 0, 0), (0.8, 0.5, 0.0), atol=0.06)
    assert at(picture, 0.3, 0.3)[0] > 0.3
    assert at(picture, -0.3, -0.3)[0] > 0.3
    assert at(picture, 0.3, -0.3).max() < 0.02


def test_antialiasing_stated_by_a_file(tmp_path: Path) -> None:
    """SPZ states antialiasing, which makes the thin bar cover less; --no-antialias overrides it."""
    write_scene(tmp_path)
    splats = read_splats(tmp_path / "scene.ply")
    splats.antialiased = True
    write_splats(tmp_path / "scene.spz", splats)
    cameras = ["--cameras", str(tmp_path / "cameras.json"), "--device", "cpu"]
    sums = []
    for name, extra in (("told", []), ("overruled", ["--no-antialias"])):
        assert run(["render", str(tmp_path / "scene.spz"), *cameras, "-o", str(tmp_path / name), *extra]) == 0
        sums.append(np.asarray(Image.open(tmp_path / name / "front.png"), np.float32).sum())
    assert sums[0] < 0.97 * sums[1]

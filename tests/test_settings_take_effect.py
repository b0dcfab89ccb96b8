"""Every setting has an effect: changing it changes the result of a tiny run."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.cli.main import run
from splat_cli.config import SETTINGS
from splat_cli.config.combinations import owner_of
from splat_cli.errors import SplatError
from splat_cli.gaussians.formats import write_splats
from splat_cli.gaussians.ply import write_ply
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from tests.gaussians.formats.spz_files import forget_axes
from tests.gaussians.some_splats import some_splats
from tests.scene.transforms_files import write_point_cloud
from tests.setting_changes import BASE, CHANGES, ELSEWHERE
from tests.small_scene import write_small_scene
from tests.training import Trained

VARYING = re.compile(r"[\d.,]+ (s|step/s)\b|\d\d:\d\d left|of [\d.]+ GiB")  # times, free memory


@pytest.fixture(scope="module")
def own_scene(tmp_path_factory):
    return write_own_scene(tmp_path_factory.mktemp("scenes") / "all")


def write_own_scene(folder):
    """A scene with every file that a setting can name: masks, other photographs, a split, splats."""
    scene = write_small_scene(folder)
    names = sorted(path.name for path in (scene / "images").iterdir())
    _measure_points(scene / "sparse" / "0")
    _write_depths(scene)
    (scene / "masks").mkdir()
    (scene / "others").mkdir()
    mask = np.full((30, 40), 255, np.uint8)
    mask[:10] = 0
    for name in names:
        Image.fromarray(mask).save(scene / "masks" / f"{name}.png")
        Image.open(scene / "images" / name).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(scene / "others" / name)
    (scene / "split.txt").write_text("\n".join(names[3:5]))
    splats = some_splats(60)
    splats.log_scales -= 3
    write_ply(scene / "splats.ply", splats)
    write_splats(scene / "splats.spz", splats)
    forget_axes(scene / "splats.spz")
    write_point_cloud(scene / "points.ply", np.random.default_rng(0).normal(size=(200, 3)))
    return scene


def _write_depths(scene):
    """Depth maps of a slanted plane through the centre of the scene, 16-bit PNG."""
    (scene / "depths").mkdir()
    levels = np.linspace(2500, 3500, 30 * 40).reshape(30, 40).astype(np.uint16)
    for path in (scene / "images").iterdir():
        Image.fromarray(levels).save(scene / "depths" / f"{path.stem}.png")


def _measure_points(folder):
    """Gives the points reprojection errors of 0 and 1 px, and tracks of 1 to 5 photographs."""
    write_model(folder, read_model(folder), binary=False)
    for path in folder.glob("*.bin"):
        path.unlink()
    lines = (folder / "points3D.txt").read_text().splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("#"):
            track = " ".join(f"{image} 0" for image in range(1, 2 + number % 5))
            lines[number] = f"{line.rsplit(' ', 1)[0]} {number % 2} {track}"
    (folder / "points3D.txt").write_text("\n".join(lines) + "\n")


class Outcomes:
    """Results of runs by their settings; each is run once."""

    def __init__(self, scene, folder):
        self._scene, self._folder, self._known = scene, folder, {}

    def of(self, **changes):
        key = json.dumps(changes, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._run(changes)
        return self._known[key]

    def _run(self, changes):
        training, path = Trained(self._scene), self._folder / f"run{len(self._known)}"
        given = {name: in_scene(value, self._scene) for name, value in changes.items()}
        try:
            training.new(path, **{**BASE, **given})
        except SplatError as error:
            return str(error)
        files = {str(file.relative_to(path)): file for file in path.rglob("*") if file.is_file()}
        splats = [_digest(file) for name, file in sorted(files.items()) if name.endswith(".ply")]
        numbers = [*splats, _digest(files.get("metrics.json"))]
        said = [VARYING.sub("", line) for line in training.said]
        return sorted(_plain(name) for name in files), numbers, said


def in_scene(value, scene):
    """A value of CHANGES, with the folder of the scene."""
    return value.replace("SCENE", str(scene)) if isinstance(value, str) else value


def _plain(name):
    return re.sub(r"events\.out.*", "events", name)


def _digest(file: Path | None):
    """Hash of splats, or of metrics without times."""
    if file is None:
        return None
    if file.suffix == ".json":
        return {step: metrics["psnr"] for step, metrics in json.loads(file.read_text())["steps"].items()}
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def outcomes(own_scene, tmp_path_factory):
    return Outcomes(own_scene, tmp_path_factory.mktemp("runs"))


def test_no_setting_is_left_out():
    assert sorted(SETTINGS.keys() ^ (CHANGES.keys() | ELSEWHERE)) == []


@pytest.mark.parametrize("option", ["--report", "--no-report"])
def test_reports(own_scene, tmp_path, option):
    run(["train", str(own_scene), "-o", str(tmp_path / "run"), "--device", "cpu", "--steps", "1", option])
    assert (tmp_path / "run" / "report.html").is_file() is (option == "--report")


def test_same_settings_give_the_same_result(own_scene, tmp_path):
    assert Outcomes(own_scene, tmp_path / "one").of() == Outcomes(own_scene, tmp_path / "two").of()


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_takes_effect(outcomes, name):
    value, context = CHANGES[name]
    assert context.get(name, BASE.get(name, SETTINGS[name].default)) != value
    assert outcomes.of(**context) != outcomes.of(**{**context, name: value})


IDLE = [(name, option) for name in CHANGES for option in SETTINGS[name].idle_with.split(" or ") if option]


@pytest.mark.parametrize(("name", "option"), IDLE)
def test_a_setting_has_no_effect_with_another_that_is_said_to_exclude_it(outcomes, name, option):
    owner, value = owner_of(option)
    context = {**CHANGES[name][1], owner: SETTINGS[owner].parse(value) if value else CHANGES[owner][0]}
    assert outcomes.of(**context) == outcomes.of(**{**context, name: CHANGES[name][0]})

"""Every number of every file of cameras or points: what is not a plain decimal number changes nothing silently."""

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest

from splat_cli.errors import FormatError, SceneError
from splat_cli.scene import read_scene
from splat_cli.scene.cameras_json import read_cameras, write_cameras
from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.trajectories.camera_path import read_path
from tests.scene.colmap_cameras import distorted_cameras
from tests.scene.export_files import (
    write_bundler,
    write_metashape,
    write_opensfm,
    write_polycam,
    write_realityscan,
    write_record3d,
    write_scanner_app,
)
from tests.scene.models import small_model, write_scene
from tests.scene.transforms_files import (
    NERFSTUDIO_APPLIED,
    frame_entry,
    write_blender,
    write_point_cloud,
    write_transforms,
)
from tests.views import ring_of_views

VIEWS = ring_of_views(3)
POINTS, COLORS = np.arange(9.0).reshape(3, 3) + 0.25, np.full((3, 3), 7)
TEXTS = ("nan", "1e400", "1_0", "\u0663")
VALUES = (float("nan"), 10**400, True, "5", [1.0])
_MOST = 40  # numbers of a text file that are changed: the first camera or point, and more


def _applied(folder):
    frames = [frame_entry(view, NERFSTUDIO_APPLIED) for view in VIEWS]
    write_transforms(folder, VIEWS, frames, k1=0.01, p1=0.001, applied_transform=NERFSTUDIO_APPLIED)


def _rolling(folder):
    frames = [frame_entry(view) for view in VIEWS]
    for frame in frames:
        matrix = frame.pop("transform_matrix")
        frame |= {"transform_matrix_start": matrix, "transform_matrix_end": matrix, "rolling_shutter": [0, 0, 1, 0]}
    write_transforms(folder, VIEWS, frames)


def _ftheta(folder):
    more = {"camera_model": "FTHETA", "angle_to_pixeldist_poly": [0.0, 30.0, 0.1], "linear_cde": [1.0, 0.0, 0.0]}
    write_transforms(folder, VIEWS, **more)


def _points(folder):
    write_transforms(folder, VIEWS, ply_file_path="points.ply")
    write_point_cloud(folder / "points.ply", POINTS, COLORS, text=True)


def _colmap(stem):
    def write(folder):
        write_scene(folder, small_model(("a.png", "b.png"), distorted_cameras(40, 30)[2:4]), binary=False)

    return write, f"sparse/0/{stem}.txt"


def _cameras(folder):
    views = [dataclasses.replace(view, radial=(0.1, 0.02)) for view in VIEWS]
    lens, shutter = Polynomial(radial=(0.1,), fisheye=True), RollingShutter((0.1, 0.0, 0.0), (0.3, 0.0, 0.0))
    views[1] = dataclasses.replace(views[1], radial=(0.0, 0.0), distortion=lens, rolling_shutter=shutter)
    write_cameras(folder / "cameras.json", views)


def _path(folder):
    frames = [{"camera_to_world": np.eye(4).ravel().tolist(), "fov": 50.0, "aspect": 1.0}] * 2
    document = {"camera_path": frames, "render_width": 64, "render_height": 48, "fps": 24, "seconds": 3}
    (folder / "path.json").write_text(json.dumps(document))


FILES = {
    "transforms": (_applied, "transforms.json"),
    "rolling": (_rolling, "transforms.json"),
    "ftheta": (_ftheta, "transforms.json"),
    "blender": (write_blender, "transforms_train.json"),
    "polycam": (lambda folder: write_polycam(folder, VIEWS), "keyframes/cameras/a_00.json"),
    "scanner app": (lambda folder: write_scanner_app(folder, VIEWS), "frame_00000.json"),
    "record3d": (lambda folder: write_record3d(folder, VIEWS, per_frame=True), "metadata.json"),
    "record3d, one lens": (lambda folder: write_record3d(folder, VIEWS), "metadata.json"),
    "opensfm": (lambda folder: write_opensfm(folder, VIEWS, POINTS, COLORS, k1=0.01), "opensfm/reconstruction.json"),
    "metashape": (lambda folder: write_metashape(folder, VIEWS), "cameras.xml"),
    "realityscan": (lambda folder: write_realityscan(folder, VIEWS, k1=0.01), "registration.csv"),
    "bundler": (lambda folder: write_bundler(folder, VIEWS, POINTS, COLORS, k1=0.01), "bundle.out"),
    **{f"colmap {stem}": _colmap(stem) for stem in ("cameras", "images", "points3D")},
    "points": (_points, "points.ply"),
    "cameras": (_cameras, "cameras.json"),
    "path": (_path, "path.json"),
}
NOT_READ = {
    "ftheta": ("fl_x", "fl_y"),  # its polynomial states the focal length
    "polycam": ("blur_score", "timestamp"),
    "record3d": ("fps", "K/"),
    "record3d, one lens": ("fps",),
    "metashape": ("chunk label", "line 4"),  # the initial calibration
    "colmap points3D": ("line 1", "word 0", "word 7"),  # numbers, and errors that no option limits
    "path": ("seconds", "aspect"),
    "cameras": ("/id",),
}


def _read(folder, file):
    """Comparable contents: views by name, points, and everything that was said to be left out."""
    if file == "cameras.json":
        views, points, said = read_cameras(folder / file), np.zeros(0), []
    elif file == "path.json":
        (views, fps), points, said = read_path(folder / file), np.zeros(0), []
        views = [dataclasses.replace(view, name=f"{view.name} {fps}") for view in views]
    else:
        scene = read_scene(folder)
        views, said = scene.views, [*scene.skipped, scene.found, *map(str, scene.dropped_points.items())]
        points = np.hstack([scene.points, scene.colors])
    return {view.name: _plain(view) for view in views}, points, said


def _plain(view):
    fields = dataclasses.asdict(dataclasses.replace(view, path=None, mask=None, depth=None))
    return json.dumps(fields, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))


def _json_places(tree, path=()):
    """Paths to numbers of a JSON tree, in the first of several objects or lists."""
    if isinstance(tree, dict):
        is_table = len(tree) > 1 and all(isinstance(value, dict) for value in tree.values())
        for key, value in itertools.islice(tree.items(), 1 if is_table else None):
            yield from _json_places(value, (*path, key))
    elif isinstance(tree, list):
        shown = enumerate(tree) if all(isinstance(item, int | float) for item in tree) else enumerate(tree[:1])
        for index, value in shown:
            yield from _json_places(value, (*path, index))
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield path


def _changed_json(tree, path, value):
    tree = json.loads(json.dumps(tree))
    holder = tree
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return json.dumps(tree)


_NUMBER = re.compile(r"(?<![\w.\"-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


def _changes(text, is_json):
    """(what was changed, text of the file): each number in two wrong ways, all ways in turn."""
    if is_json:
        tree = json.loads(text)
        for number, path in enumerate(_json_places(tree)):
            for value in (VALUES * 2)[number % len(VALUES) :][:2]:
                yield ("/".join(map(str, path)), repr(value)[:20]), _changed_json(tree, path, value)
        return
    for number, match in enumerate(itertools.islice(_NUMBER.finditer(text), _MOST)):
        before = text[: match.start()].split("\n")
        place = f"line {len(before)}, word {len(before[-1].split())}, after {before[-1][-25:]!r}"
        for word in (TEXTS * 2)[number % len(TEXTS) :][:2]:
            yield (place, word), text[: match.start()] + word + text[match.end() :]


@pytest.mark.parametrize("name", FILES)
def test_text_for_a_number_is_refused_or_named(tmp_path, name):
    write, file = FILES[name]
    write(tmp_path)
    path = tmp_path / file
    text = path.read_text()
    before, silent = _read(tmp_path, file), []
    for what, content in _changes(text, file.endswith(".json")):
        path.write_text(content)
        try:
            after = _read(tmp_path, file)
        except (SceneError, FormatError):
            continue
        is_read = not any(part in what[0] for part in NOT_READ.get(name, ()))
        others = {view for view, values in after[0].items() if before[0].get(view) != values}
        if others or (is_read and after[2] == before[2]):
            silent.append((*what, others))
    assert not silent, "\n".join(map(str, silent))

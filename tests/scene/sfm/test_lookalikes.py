"""Photographs around a can whose label is printed on two sides: mapping may put one side on top of the other."""

import json
import sys

import pytest

from tests.subprocesses import finished

PROGRAM = """
import json, sys
from itertools import combinations
from pathlib import Path
import numpy as np
import pycolmap
from PIL import Image
from splat_cli.scene.sfm import colmap_database as steps, colmap_worker as worker

pycolmap.logging.minloglevel = 2
pycolmap.set_random_seed(0)
folder, rng, num = Path(sys.argv[1]), np.random.default_rng(0), 14
file, names = folder / "database.db", [f"{number:02d}.jpg" for number in range(num)]

def around(angle, radius, height):
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=-1)

def pose(angle, radius=4.0, height=0.0):
    center = around(angle, radius, height)
    ahead = -center / np.linalg.norm(center)
    right = np.cross(ahead, (0, 0, 1)) / np.linalg.norm(np.cross(ahead, (0, 0, 1)))
    rotation = np.array([right, np.cross(ahead, right), ahead])
    return pycolmap.Rigid3d(pycolmap.Rotation3d(rotation), -rotation @ center)

angles = np.linspace(0, 2 * np.pi, num, endpoint=False)
poses = [pose(*one) for one in zip(angles, rng.uniform(3.8, 4.2, num), rng.uniform(-0.5, 0.5, num))]
label = around(rng.uniform(-0.3, 0.3, 60), rng.uniform(0.9, 1, 60), rng.uniform(-0.4, 0.4, 60))
plain = around(rng.uniform(0, 2 * np.pi, 240), rng.uniform(0.9, 1, 240), rng.uniform(-1, 1, 240))
points, looks = np.concatenate([label, label * (-1, -1, 1), plain]), np.r_[0:60, 0:60, 60:300]
for name in names:
    Image.new("RGB", (640, 640)).save(folder / name)
job = {"names": names, "spheres": [], "camera_model": "SIMPLE_RADIAL", "seed": 0, "are_small": False}
steps.register(pycolmap, file, folder, job, [names])
database = pycolmap.Database.open(file)
(camera,) = database.read_all_cameras()
images, shown = {image.name: image for image in database.read_all_images()}, {}
for name, moved in zip(names, poses):
    center = moved.inverse().translation
    facing = ((center - points) * points * (1, 1, 0)).sum(axis=1) > 0.35 * np.linalg.norm(center - points, axis=1)
    shown[name] = np.flatnonzero(facing)
    seen = points[facing] @ moved.rotation.matrix().T + moved.translation
    pixels = camera.focal_length * seen[:, :2] / seen[:, 2:] + 320 + rng.normal(0, 0.3, (facing.sum(), 2))
    database.write_keypoints(images[name].image_id, pixels.astype(np.float32))
for first, second in combinations(names, 2):
    a, b = looks[shown[first]], looks[shown[second]]
    _, rows, columns = np.intersect1d(a, b, return_indices=True)
    if len(rows) >= 15:
        matches = np.stack([rows, columns], axis=1).astype(np.uint32)
        database.write_matches(images[first].image_id, images[second].image_id, matches)
database.close()
phases = []
worker.send = steps.send = lambda **message: phases.extend([message["phase"]] if "phase" in message else [])
steps.verify(pycolmap, file, 0)
phases.clear()

def model_of(poses):
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(camera)
    for name, moved in zip(names, poses):
        model.add_image_with_trivial_frame(pycolmap.Image(name, [], 1, images[name].image_id), moved)
    return model

def turns(model):
    ways = [model.find_image_with_name(name).cam_from_world().rotation.matrix()[2] for name in names]
    return [float(np.degrees(np.arccos(a @ b))) for a, b in zip(ways, ways[1:])]

def pairs():
    opened = pycolmap.Database.open(file)
    numbers, counts = opened.read_two_view_geometry_num_inliers()
    opened.close()
    found = [pycolmap.pair_id_to_image_pair(number) for number, count in zip(numbers, counts) if count]
    return sorted([a - 1, b - 1] for a, b in found)

def files():
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".jpg")

def repaired(model):
    (found,) = worker._without_lookalikes(pycolmap, [model], file, folder, job)
    return found

half = pose(np.pi).rotation.inverse() * pose(0.0).rotation
right = model_of(poses)
folded = model_of(poses[:7] + [moved * pycolmap.Rigid3d(half, np.zeros(3)) for moved in poses[7:]])
verified, map_again, calls = pairs(), worker._map, []
worker._map = lambda *args: calls.append(args) or [folded]
unchanged = [repaired(right) is right, calls == [], repaired(folded) is folded]
unchanged += [pairs() == verified, files() == [file.name]]
stray = pycolmap.Reconstruction()
stray.add_camera_with_trivial_rig(camera)
stray.add_image_with_trivial_frame(pycolmap.Image("stray.jpg", [], 1, num + 1), poses[0])
worker._map, both = lambda *args: [right], [folded, stray]
unchanged += [worker._without_lookalikes(pycolmap, both, file, folder, job) is both]
worker._map, worker._SAVE_SECONDS, worker._SAVE_SHARE = map_again, 0, 0
worker.SavedModels(file).folder.mkdir()
mended = repaired(folded)
print("RESULT", json.dumps({
    "unchanged": unchanged, "folded": turns(folded), "mended": turns(mended), "verified": verified, "left": pairs(),
    "files": files(), "phases": phases,
}))
"""


def test_sides_that_look_alike_are_told_apart(tmp_path):
    """Their pairs are left out of the database.

    Nothing changes if the poses fit, or if mapping folds them again or loses a photograph of another model.
    """
    pytest.importorskip("pycolmap")
    done = finished([sys.executable, "-c", PROGRAM, str(tmp_path)])
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == 1, done.stderr
    found = json.loads(lines[0].removeprefix("RESULT "))
    assert found["unchanged"] == [True] * 6
    assert max(found["folded"]) > 90
    assert found["mended"] == pytest.approx([360 / 14] * 13, abs=3)
    assert any(b - a == 7 for a, b in found["verified"]), "photographs of both labels match"
    assert not [(a, b) for a, b in found["left"] if 4 < b - a < 10], "pairs of both labels"
    assert {(a, a + 1) for a in range(13)} <= set(map(tuple, found["left"]))
    assert found["files"] == ["database.db"]
    assert found["phases"][:2] == ["kept"] * 2
    assert set(found["phases"][2:]) == {"again"}

"""Rotations of photographs by pairs alone, where cameras hardly move before a distant view."""

import json
import sys

import pytest

from tests.subprocesses import finished

PROGRAM = """
import json, sys
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
import numpy as np
import pycolmap
from PIL import Image
from splat_cli.scene.sfm import colmap_database as steps, colmap_worker as worker

pycolmap.logging.minloglevel = 2
folder, rng, num, side = Path(sys.argv[1]), np.random.default_rng(0), 20, 640
file, names = folder / "database.db", [f"{number:02d}.jpg" for number in range(num)]
for name in names:
    Image.new("RGB", (side, side)).save(folder / name)
job = {"names": names, "spheres": [], "camera_model": "SIMPLE_RADIAL", "seed": 0, "are_small": True}
steps.register(pycolmap, file, folder, job, [names])
points = rng.normal(size=(6000, 3)) * (1, 0.3, 1)
points *= 100 / np.linalg.norm(points, axis=1, keepdims=True)
angles = np.radians(np.linspace(0, 240, num))  # a third of the circle is missing
turns = [np.array([(np.cos(a), 0, -np.sin(a)), (0, 1, 0), (np.sin(a), 0, np.cos(a))]) for a in angles]
focal, database = 0.8 * side, pycolmap.Database.open(file)
images = {image.name: image.image_id for image in database.read_all_images()}
places = {}
for name, turn in zip(names, turns):
    x, y, z = turn @ (points - rng.uniform(-0.5, 0.5, 3)).T
    pixels = focal * np.array([x, y]) / z + side / 2
    number = np.flatnonzero((z > 0) & (np.abs(pixels - side / 2).max(axis=0) < side / 2))
    places[name] = dict(zip(number, range(len(number))))
    noisy = pixels[:, number].T + rng.normal(0, 0.3, (len(number), 2))
    database.write_keypoints(images[name], noisy.astype(np.float32))
for first, second in combinations(names, 2):
    both = sorted(places[first].keys() & places[second].keys())
    matches = [(places[first][number], places[second][number]) for number in both]
    if len(matches) >= 30:
        found = pycolmap.TwoViewGeometry(inlier_matches=np.array(matches, np.uint32))
        database.write_two_view_geometry(images[first], images[second], found)
database.close()

def model(num_placed):
    camera = pycolmap.Camera(model="SIMPLE_PINHOLE", width=side, height=side, params=[focal, side / 2, side / 2])
    return SimpleNamespace(
        num_reg_images=lambda: num_placed, reg_image_ids=lambda: [1], images={1: SimpleNamespace(camera=camera)}
    )

def error(found):
    apart = [np.array(found[name]) @ turn.T for name, turn in zip(names, turns)]  # one common rotation
    return max(float(np.degrees(np.arccos(((one @ apart[0].T).trace() - 1) / 2))) for one in apart[1:])

found = worker._turns_of_few(pycolmap, file, [model(15)], job)
answers = {"few": [len(found), error(found)], "most": len(worker._turns_of_few(pycolmap, file, [model(16)], job))}
answers["none"] = len(worker._turns_of_few(pycolmap, file, [], job))
answers["large"] = len(worker._turns_of_few(pycolmap, file, [model(15)], job | {"are_small": False}))
answers["panoramas"] = len(worker._turns_of_few(pycolmap, file, [model(15)], job | {"spheres": [names]}))
by_pairs = steps._pair_rotations

def disturbed(*args):
    model, edges = by_pairs(*args)
    wrong = pycolmap.Rotation3d(np.radians(40) * np.array([0, 1, 0]))
    for number, edge in enumerate(edges.values()):
        if number % 3:
            edge.cam2_from_cam1 = pycolmap.Rigid3d(wrong, [0, 0, 0]) * edge.cam2_from_cam1
    return model, edges

steps._pair_rotations = disturbed
answers["contradicting"] = len(worker._turns_of_few(pycolmap, file, [model(15)], job))

def failing(*args):
    raise RuntimeError("COLMAP")

steps._pair_rotations = failing
answers["failing"] = len(worker._turns_of_few(pycolmap, file, [model(15)], job))
print("RESULT", json.dumps(answers))
"""


def test_photographs_that_look_far_have_rotations_by_pairs_alone(tmp_path):
    """Not if most of them have a pose, or if most pairs contradict the others."""
    pytest.importorskip("pycolmap")
    done = finished([sys.executable, "-c", PROGRAM, str(tmp_path)])
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert len(lines) == 1, done.stderr
    found = json.loads(lines[0].removeprefix("RESULT "))
    num, degrees = found.pop("few")
    assert num == 20
    assert degrees < 2
    assert set(found.values()) == {0}, found

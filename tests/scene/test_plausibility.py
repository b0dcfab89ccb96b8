"""Signs of wrong camera poses: each is reported for a scene that has it, and a good scene has none."""

import dataclasses
import sqlite3
import struct
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from splat_cli.errors import SceneError
from splat_cli.scene import read_scene
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.lens import IMPOSSIBLE
from splat_cli.scene.plausibility import (
    matched_features,
    matched_photographs,
    refuse_photographs,
    refuse_scene,
    signs_of_wrong_poses,
)
from splat_cli.scene.view import Scene
from tests.scene.sfm.exif import camera_exif
from tests.small_scene import write_small_scene
from tests.views import ring_of_views


def good_scene(root, views=None):
    points = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    return Scene(root, ring_of_views(12) if views is None else views, points, np.zeros((300, 3), np.uint8))


def one_sign(scene):
    (sign,) = signs_of_wrong_poses(scene)
    return sign


def with_cameras(views, focal_lengths):
    return [
        dataclasses.replace(view, fx=focal, camera_id=number)
        for number, (view, focal) in enumerate(zip(views, focal_lengths, strict=True))
    ]


def moved(views, change):
    """Views whose centers are changed, with their rotations."""
    placed = []
    for number, view in enumerate(views):
        w2c = view.w2c.copy()
        w2c[:3, 3] = -w2c[:3, :3] @ change(number, view.center)
        placed.append(dataclasses.replace(view, w2c=w2c))
    return placed


def test_a_good_scene_has_no_sign(tmp_path):
    assert signs_of_wrong_poses(good_scene(tmp_path)) == []
    refuse_scene(good_scene(tmp_path))


@pytest.mark.parametrize("radius", [0.8, 1.3])
def test_focal_lengths_of_one_lens_may_differ_a_little(tmp_path, radius):
    """Focal lengths of a phone with autofocus, estimated one by one, or with one that is far off."""
    focal = np.full(12, 35.0) * np.linspace(0.95, 1.05, 12)
    focal[3] *= radius
    assert signs_of_wrong_poses(good_scene(tmp_path, with_cameras(ring_of_views(12), focal))) == []


def test_focal_lengths_of_one_lens_that_disagree(tmp_path):
    views = with_cameras(ring_of_views(12), np.linspace(30, 50, 12))
    with pytest.raises(SceneError, match=r"look wrong: the focal lengths of 12 cameras of 40x30 differ, 32 to 48 .*"):
        refuse_scene(good_scene(tmp_path, views))
    assert "--camera-model" in one_sign(good_scene(tmp_path, views))
    several = [dataclasses.replace(view, name=f"{'xyz'[i % 3]}{view.name}") for i, view in enumerate(views)]
    assert signs_of_wrong_poses(good_scene(tmp_path, several)) == [], "photographs of three cameras"


@pytest.mark.parametrize("is_zoom", [True, False])
def test_focal_lengths_of_a_zoom_lens(tmp_path, is_zoom):
    views = with_cameras(ring_of_views(12), np.linspace(30, 50, 12))
    for number, view in enumerate(views):
        exif = camera_exif("Zoom", focal_length=20.0 + (number % 2 if is_zoom else 0))
        Image.new("RGB", (8, 6), (number, 90, 90)).save(tmp_path / view.name, exif=exif)
    assert (signs_of_wrong_poses(good_scene(tmp_path, named_files(tmp_path, views))) == []) is is_zoom


def named_files(folder, views):
    return [dataclasses.replace(view, path=folder / view.name) for view in views]


def test_a_focal_length_too_short_for_a_lens_without_fisheye(tmp_path):
    views = [dataclasses.replace(view, fx=6.0, fy=6.0) for view in ring_of_views(12)]
    assert "the focal length is 6 pixels at a width of 40" in one_sign(good_scene(tmp_path, views))


def test_principal_points_of_photographs_that_were_downscaled(tmp_path):
    """3D Scanner App and some transforms.json state no size."""
    views = [dataclasses.replace(view, width=20, height=15) for view in ring_of_views(12)]
    assert "are at 105% of the width and 87% of the height" in one_sign(good_scene(tmp_path, views))


@pytest.mark.parametrize("share", [0, 10])
def test_downscaled_photographs_that_are_crops(tmp_path, share):
    """The crops have the same shape, so their size does not give them away."""
    views = []
    for number, view in enumerate(ring_of_views(5)):
        spots = np.random.default_rng(number).integers(0, 256, (15, 20), np.uint8)
        whole = Image.fromarray(spots).resize((200, 150), Image.Resampling.BICUBIC)
        whole.save(folder_of(tmp_path, "images") / view.name)
        part = whole.crop((share, 0.75 * share, 200 - share, 150 - 0.75 * share))
        part.resize((100, 75)).save(folder_of(tmp_path, "images_2") / view.name)
        views.append(dataclasses.replace(view, path=tmp_path / "images_2" / view.name))
    signs = signs_of_wrong_poses(good_scene(tmp_path, views))
    assert sum("are crops of those in images" in sign for sign in signs) == bool(share)
    (tmp_path / "images" / views[0].name).write_bytes(b"damaged")
    (tmp_path / "images_2" / views[2].name).write_bytes(b"damaged")
    assert signs_of_wrong_poses(good_scene(tmp_path, views)) == []


def folder_of(folder, name):
    (folder / name).mkdir(exist_ok=True)
    return folder / name


def test_cameras_that_no_lens_has(tmp_path):
    scene = good_scene(tmp_path)
    scene.skipped = [f"b.jpg: its camera 3 has a focal length {IMPOSSIBLE} (-5)"]
    assert f"1 of 13 photographs have a focal length or distortion {IMPOSSIBLE}" in one_sign(scene)
    scene.skipped = ["b.jpg: the file is missing"]
    assert signs_of_wrong_poses(scene) == []


def test_cameras_at_one_place(tmp_path):
    views = moved(ring_of_views(12), lambda number, center: 0.004 * center)
    assert "at one place" in one_sign(good_scene(tmp_path, views))


def test_cameras_on_a_line(tmp_path):
    line = moved(ring_of_views(12), lambda number, center: np.array([0.5 * number, 0, 0]))
    assert "exactly on a line" in one_sign(good_scene(tmp_path, line))
    walk = moved(ring_of_views(12), lambda number, center: np.array([0.5 * number, 0.02 * (number % 3), 0]))
    assert signs_of_wrong_poses(good_scene(tmp_path, walk)) == []


def test_points_that_are_a_dot(tmp_path):
    scene = good_scene(tmp_path)
    scene.points = scene.points * 0.02
    assert "the points lie within 0.049 units, the cameras 3 apart" in one_sign(scene)
    scene.points = scene.points[:40]
    assert signs_of_wrong_poses(scene) == [], "too few to tell"


def write_visible(folder, names, ids):
    """A COLMAP model's images.bin with 2D points; cameras.bin makes it a model."""
    folder.mkdir(parents=True)
    (folder / "cameras.bin").touch()
    data = struct.pack("<Q", len(names))
    for number, (name, seen) in enumerate(zip(names, ids, strict=True), 1):
        data += struct.pack("<I7dI", number, 1, 0, 0, 0, 0, 0, 0, 1) + name.encode() + b"\0"
        unseen = [(0.0, 0.0, 2**64 - 1)]
        data += struct.pack("<Q", len(seen) + 1)
        data += b"".join(struct.pack("<ddQ", *one) for one in [*unseen, *((1.0, 2.0, i) for i in seen)])
    (folder / "images.bin").write_bytes(data)


NAMES = [f"a_{i:02d}.jpg" for i in range(12)]


def neighbours(first, count):
    """Ids of points of each view; each view shares 50 with the next."""
    return [range(first + 50 * i, first + 50 * i + 100) for i in range(count)]


def test_photographs_whose_points_connect_them(tmp_path):
    write_visible(tmp_path / "sparse" / "0", NAMES, [list(ids) + list(range(50)) for ids in neighbours(100, 12)])
    assert signs_of_wrong_poses(good_scene(tmp_path)) == []


def test_two_groups_in_a_model(tmp_path):
    everywhere = range(10_000, 10_050)
    halves = [*neighbours(0, 7), *neighbours(1000, 5)]
    ids = [[*everywhere, *more] for more in halves]
    write_visible(tmp_path / "sparse" / "0", NAMES, ids)
    assert signs_of_wrong_poses(good_scene(tmp_path)) == []
    apart = [[*range(5000 * (i > 6), 5000 * (i > 6) + 60), *more] for i, more in enumerate(halves)]
    write_visible(tmp_path / "other" / "sparse" / "0", NAMES, apart)
    sign = one_sign(good_scene(tmp_path / "other"))
    assert sign.startswith("5 of 12 photographs share hardly any point with the others: train a folder for each place")


def test_two_models_of_two_places(tmp_path):
    ids = [list(range(60))] * 12
    write_visible(tmp_path / "sparse" / "0", NAMES, ids)
    write_visible(tmp_path / "sparse" / "1", [*NAMES[:4], *(f"b{i}.jpg" for i in range(4))], ids[:8])
    assert signs_of_wrong_poses(good_scene(tmp_path)) == [], "four more photographs are few"
    write_visible(tmp_path / "sparse" / "2", [f"c{i}.jpg" for i in range(6)], ids[:6])
    assert "6 other photographs are in" in one_sign(good_scene(tmp_path))


def test_few_observations(tmp_path):
    write_visible(tmp_path / "sparse" / "0", NAMES, [range(20)] * 12)
    assert one_sign(good_scene(tmp_path)).startswith("a photograph shows 20 points, and 12.0 photographs show a point")
    write_visible(tmp_path / "b/sparse/0", NAMES, [range(60 * (i // 2), 60 * (i // 2) + 60) for i in range(12)])
    assert "and 2.0 photographs show a point" in signs_of_wrong_poses(good_scene(tmp_path / "b"))[0]


def test_photographs_without_a_pose(tmp_path):
    (tmp_path / "unregistered.txt").write_text("x.jpg\n" * 12)
    assert signs_of_wrong_poses(good_scene(tmp_path)) == []
    (tmp_path / "unregistered.txt").write_text("x.jpg\n" * 13)
    assert one_sign(good_scene(tmp_path)).startswith("only 12 of 25 photographs have a pose: ")


@pytest.mark.parametrize(
    ("matches", "is_named"),
    [
        ([(90, 6), (10, 3)], True),
        ([(30, 4), (30, 5), (25, 6), (15, 2)], True),
        ([(70, 6), (30, 3)], False),
        ([], False),
    ],
)
def test_the_cause_is_a_camera_that_only_turned(tmp_path, matches, is_named):
    write_matches(tmp_path, matches)
    assert signs_of_wrong_poses(good_scene(tmp_path)) == [], "all have a pose: perhaps a wall"
    (tmp_path / "unregistered.txt").write_text("x.jpg\n" * 13)
    assert ("by a turn of the camera only" in one_sign(good_scene(tmp_path))) == is_named


def write_matches(folder, matches):
    """A database with pairs of (number of matches, kind of the pair)."""
    with sqlite3.connect(folder / "database.db") as database:
        database.execute("CREATE TABLE two_view_geometries (rows INTEGER, config INTEGER)")
        database.executemany("INSERT INTO two_view_geometries VALUES (?, ?)", matches)
    database.close()


@pytest.mark.parametrize(("turned", "distance", "is_named"), [(96, 20, True), (95, 20, False), (96, 2, False)], ids=str)
def test_a_turn_that_was_mapped_as_a_wall(tmp_path, turned, distance, is_named):
    """The cameras of a ring of radius 3 see points at 0.7 times `distance` or more."""
    write_matches(tmp_path, [(turned, 6), (100 - turned, 3)])
    scene = good_scene(tmp_path)
    far = dataclasses.replace(scene, points=distance * scene.points)
    assert [sign.split(" (")[0] for sign in signs_of_wrong_poses(far)] == is_named * [
        "most photographs differ by a turn of the camera only"
    ]


def test_photographs_that_show_the_same(tmp_path):
    pycolmap = pytest.importorskip("pycolmap")
    assert matched_photographs(tmp_path) == []
    assert matched_features(tmp_path) == {}
    found = [(pycolmap.image_pair_to_pair_id(7, 3), 30), (pycolmap.image_pair_to_pair_id(3, 12), 29)]
    with sqlite3.connect(tmp_path / "database.db") as database:
        database.execute("CREATE TABLE images (image_id INTEGER, name TEXT)")
        database.executemany("INSERT INTO images VALUES (?, ?)", [(3, "c.jpg"), (7, "g.jpg"), (12, "l.jpg")])
        database.execute("CREATE TABLE two_view_geometries (pair_id INTEGER, rows INTEGER)")
        database.executemany("INSERT INTO two_view_geometries VALUES (?, ?)", found)
    database.close()
    assert matched_photographs(tmp_path) == [("c.jpg", "g.jpg")]


_MATCHED = """
import sys
import numpy as np
import pycolmap

opened = pycolmap.Database.open(sys.argv[1])
for size, pair in ((40, (7, 3)), (0, (3, 12))):
    geometry = pycolmap.TwoViewGeometry()
    geometry.inlier_matches = np.stack([np.arange(size), 100 + np.arange(size)], 1).astype(np.uint32)
    opened.write_two_view_geometry(*pair, geometry)
opened.close()
"""


def test_features_that_match_in_colmaps_database(tmp_path):
    """COLMAP stores a pair with the smaller number first. Another process writes: see colmap_worker.py."""
    pytest.importorskip("pycolmap")
    subprocess.run([sys.executable, "-c", _MATCHED, tmp_path / "database.db"], check=True)
    ((pair, matches),) = matched_features(tmp_path).items()
    assert pair == (3, 7)
    assert np.array_equal(matches, np.stack([100 + np.arange(40), np.arange(40)], axis=1))


def noise(width, height):
    """Smooth noise uint8 [H, W, 3] that continues across the left and right edge."""
    rng = np.random.default_rng(0)
    wave = sum(
        rng.normal() * np.cos(2 * np.pi * (k * np.arange(width) / width + rng.random((height, 1)) * 0 + rng.random()))
        for k in range(1, 6)
    )
    return np.clip(128 + 30 * wave, 40, 255).astype(np.uint8)[..., None].repeat(3, 2)


def saved(folder, pixels, count=4):
    paths = [folder / f"{i}.png" for i in range(count)]
    for path in paths:
        Image.fromarray(pixels).save(path)
    return paths


def circle(width, height, radius):
    y, x = np.mgrid[:height, :width]
    inside = np.hypot(x + 0.5 - width / 2, y + 0.5 - height / 2) < radius
    return (noise(width, height) * inside[..., None]).astype(np.uint8)


def test_panoramas_are_refused_and_other_photographs_of_their_size_are_not(tmp_path):
    panorama = noise(200, 100)
    with pytest.raises(SceneError, match="panoramas .* --allow-implausible"):
        refuse_photographs(saved(tmp_path, panorama), "SIMPLE_RADIAL")
    refuse_photographs(saved(tmp_path, panorama), "EQUIRECTANGULAR")
    refuse_photographs(saved(tmp_path, noise(300, 100)[:, :200]), "SIMPLE_RADIAL")
    (tmp_path / "mixed").mkdir()
    mixed = [*saved(tmp_path, noise(300, 100), 2), *saved(tmp_path / "mixed", panorama, 2)]
    refuse_photographs(mixed, "SIMPLE_RADIAL")


@pytest.mark.parametrize("size", [(160, 120, 60), (120, 120, 60), (160, 120, 75), (120, 160, 58)])
def test_circles_of_a_fisheye_need_its_camera_model(tmp_path, size):
    paths = saved(tmp_path, circle(*size))
    with pytest.raises(SceneError, match=r"circle of a fisheye lens.*--camera-model OPENCV_FISHEYE"):
        refuse_photographs(paths, "SIMPLE_RADIAL")
    refuse_photographs(paths, "OPENCV_FISHEYE")


def test_dark_photographs_are_not_taken_for_circles(tmp_path):
    refuse_photographs(saved(tmp_path, circle(160, 120, 20)), "SIMPLE_RADIAL")  # a lamp at night
    refuse_photographs(saved(tmp_path, np.zeros((120, 160, 3), np.uint8)), "SIMPLE_RADIAL")
    refuse_photographs(saved(tmp_path, noise(160, 120)), "SIMPLE_RADIAL")
    lights = circle(160, 120, 60)
    lights[np.random.default_rng(0).random((120, 160)) < 0.07] = 200  # outside, too
    refuse_photographs(saved(tmp_path, lights), "SIMPLE_RADIAL")


def test_transparent_and_damaged_photographs_are_not_judged(tmp_path):
    pixels = circle(120, 120, 60)
    refuse_photographs(saved(tmp_path, np.dstack([pixels, pixels[..., 0]])), "SIMPLE_RADIAL")
    (tmp_path / "a.jpg").write_bytes(b"no")
    refuse_photographs([tmp_path / "a.jpg"], "SIMPLE_RADIAL")


def test_training_refuses_an_implausible_scene_unless_told(splat, tmp_path):
    scene = write_small_scene(tmp_path / "scene")
    (scene / "unregistered.txt").write_text("x.jpg\n" * 20)
    options = ("--device", "cpu", "--steps", "2", "--init", "points", "--no-report", "-o", tmp_path / "run")
    result = splat("train", scene, *options)
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert f"the poses of {scene} look wrong: only 9 of 29" in result.err
    assert "--allow-implausible trains anyway" in result.err
    assert not (tmp_path / "run").exists()
    assert splat("train", scene, *options, "--allow-implausible").code == 0
    assert splat("train", "--resume", tmp_path / "run", "--steps", "3").code == 0


def test_a_scene_of_impossible_cameras_needs_another_camera_model(tmp_path):
    """A fisheye called SIMPLE_RADIAL often ends like this."""
    scene = write_small_scene(tmp_path / "scene", camera_model="SIMPLE_RADIAL")
    model = read_model(scene / "sparse/0")
    model.cameras[1] = dataclasses.replace(model.cameras[1], params=(30.0, 20.0, 15.0, -9.0))
    write_model(scene / "sparse/0", model)
    with pytest.raises(SceneError, match=r"a_00.jpg: .*; estimate the poses with another camera model .*FISHEYE"):
        read_scene(scene)

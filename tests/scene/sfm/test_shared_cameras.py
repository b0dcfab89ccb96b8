"""Photographs of one size without EXIF data: one camera if that fits as well, else mapped again with one each."""

import io
import json
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from splat_cli.scene.sfm import colmap_worker
from tests.subprocesses import finished

PROGRAM = """
import json, sys
from pathlib import Path
from PIL import Image
import pycolmap
from splat_cli.scene.sfm import colmap_database as steps, colmap_worker as worker

pycolmap.logging.minloglevel = 2
folder = Path(sys.argv[1])
pycolmap.set_random_seed(0)
options = pycolmap.SyntheticDatasetOptions(
    num_rigs=1, num_cameras_per_rig=1, num_frames_per_rig=8, num_points3D=4000, camera_width=400, camera_height=300
)
database = pycolmap.Database.open(folder / "database.db")
model = pycolmap.synthesize_dataset(options, database)
noise = pycolmap.SyntheticNoiseOptions()
noise.point2D_stddev = 0.5
pycolmap.synthesize_noise(noise, model)
for number in [number for number, point in model.points3D.items() if point.track.length() < 2]:
    model.delete_point3D(number)
pycolmap.bundle_adjustment(model)
model.update_point_3d_errors()
counts = [database.num_keypoints(), database.num_verified_image_pairs(), database.num_matches()]
database.close()
names = [image.name for image in model.images.values()]
for name in names:
    (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (400, 300)).save(folder / "images" / name, "JPEG")
for shade, name in enumerate(names[:7]):
    Image.new("RGB", (400, 300), (20 * shade, 250, 0)).save(folder / "images" / name, "PNG")
(folder / "images" / names[7]).write_bytes(b"damaged")
worker._color_points(model, folder / "images")
bare = pycolmap.Reconstruction(model)
for one in bare.find_image_with_name(names[0]).get_observation_points2D():
    bare.delete_point3D(one.point3D_id)
worker._color_points(bare, folder / "images")  # one photograph shows no point
shade_of = dict(zip(model.images, range(7)))
colors = []
for point in model.points3D.values():
    shades = [shade_of[one.image_id] for one in point.track.elements if one.image_id in shade_of]
    colors.append([*map(int, point.color), 20 * sum(shades) / max(len(shades), 1)] if shades else [0] * 4)
Image.new("RGB", (400, 300)).save(folder / "images" / names[7], "JPEG")
split = worker._split_cameras(pycolmap, model, set(names[:5]))
errors = [one.compute_mean_reprojection_error() for one in (model, split)]
for camera in split.cameras.values():
    camera.focal_length *= 1.1
split.update_point_3d_errors()
errors.append(split.compute_mean_reprojection_error())
worker._adjust(pycolmap, split, 8, 1e-4)
errors.append(split.compute_mean_reprojection_error())
shared = worker._is_shared(pycolmap, [model], set(names), 8)
spreads, large = [], pycolmap.Reconstruction(model)
large.transform(pycolmap.Sim3d(7, pycolmap.Rotation3d(), [1, 2, 3]))
for num, whole in ((4000, large), (4000, model), (200, model), (100, model)):
    some = pycolmap.Reconstruction(whole)
    for number in sorted(some.points3D)[num:]:
        some.delete_point3D(number)
    spreads.append(worker._spread(pycolmap, some, {"seed": 0, "names": names}))
fewer = worker._with_fewer_points(pycolmap, model, 10)
lenses, models, options.num_points3D = [], pycolmap.CameraModelId, 400
lenses_of = {models.SIMPLE_RADIAL: [800, 200, 150, 0.1], models.OPENCV: [800, 800, 200, 150, 0.1, 0, 0, 0.05]}
for options.camera_model_id, options.camera_params in lenses_of.items():
    scene = pycolmap.synthesize_dataset(options)
    pycolmap.synthesize_noise(noise, scene)
    (camera,) = scene.cameras.values()
    camera.model, camera.params = models.SIMPLE_RADIAL, [800, 200, 150, 0]
    worker._adjust(pycolmap, scene, 8, 1e-6)
    for worker._REFINED in (9, 8):
        refined = worker._with_refined_lens(pycolmap, scene, 8)
        errors_of = [one.compute_mean_reprojection_error() for one in (scene, refined)]
        lenses.append([refined is scene, errors_of, list(next(iter(refined.cameras.values())).params)])
job = {"names": names[::-1], "spheres": [], "camera_model": "SIMPLE_RADIAL"}
steps.register(pycolmap, folder / "separate.db", folder / "images", job, [])
steps.copy_matches(pycolmap, folder / "database.db", folder / "separate.db")
copied = pycolmap.Database.open(folder / "separate.db")
(folder / "images" / "damaged.jpg").write_bytes(b"")
def registered(name):
    opened = pycolmap.Database.open(folder / name)
    rows = [opened.read_all_cameras(), opened.read_all_rigs(), opened.read_all_frames(), opened.read_all_images()]
    opened.close()
    return str(rows[2:]), [str(row.todict()) for row in rows[0] + rows[1]]
pycolmap.Database.open(folder / "imported.db").close()
reader = pycolmap.ImageReaderOptions(camera_model="RADIAL")
single = pycolmap.CameraMode.SINGLE
pycolmap.import_images(folder / "imported.db", folder / "images", single, names, reader)
pycolmap.Database.open(folder / "own.db").close()
steps._register_group(pycolmap, folder / "own.db", folder / "images", sorted(names), "RADIAL")
pycolmap.Database.open(folder / "damaged.db").close()
steps._register_group(pycolmap, folder / "damaged.db", folder / "images", ["damaged.jpg", *sorted(names)], "RADIAL")
print("RESULT", json.dumps({
    "cameras": len(split.cameras), "points": [model.num_points3D(), split.num_points3D()],
    "errors": errors, "lenses": lenses,
    "fewer": [fewer.num_points3D(), min(image.num_points3D for image in fewer.images.values())],
    "lengths": [one.compute_mean_track_length() for one in (model, fewer)],
    "shared": shared, "spreads": spreads,
    "colors": colors,
    "registered": [registered(f"{name}.db") for name in ("own", "imported", "damaged")],
    "counts": counts, "num_cameras": copied.num_cameras(),
    "copied": [copied.num_keypoints(), copied.num_verified_image_pairs(), copied.num_matches()],
}), flush=True)
copied.close()
"""


def test_cameras_are_split_and_matches_copied(tmp_path):
    pytest.importorskip("pycolmap")
    done = finished([sys.executable, "-c", PROGRAM, str(tmp_path)])
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    found = json.loads(line.removeprefix("RESULT "))
    assert (found["cameras"], found["shared"]) == (6, True)
    assert found["points"][0] == found["points"][1] > 30
    assert found["fewer"][0] < found["points"][0]
    assert found["fewer"][1] >= 10
    assert found["lengths"][0] < found["lengths"][1]
    large, many, fewer, fewest = found["spreads"]
    assert many < 0.025 < 0.05 < fewer < fewest == 1, "poses by one half of the points and by the other"
    assert large == pytest.approx(many, rel=0.3)
    (few, *_), (simple, *_), (few_again, *_), (kept, (radial_error, refined_error), lens) = found["lenses"]
    assert [few, few_again] == [True, True], "8 photographs are too few"
    assert simple, "more parameters fit no better"
    assert not kept
    assert refined_error < 0.8 * radial_error
    assert lens[7] == pytest.approx(0.05, rel=0.1)
    red, green, blue, expected = np.array(found["colors"]).T
    assert np.abs(red - expected).max() <= 0.5
    assert set(green) <= {0, 250}
    assert np.mean(green == 250) > 0.9
    assert not blue.any()
    own, imported, damaged = found["registered"]
    assert own == imported
    assert own[0].count("name") == 8
    assert damaged[1] == own[1]
    before, after, wrong, adjusted = found["errors"]
    assert after == pytest.approx(before)
    assert adjusted < 1.01 * before < 0.5 * wrong, "all focal lengths were a tenth too long"
    assert (found["num_cameras"], found["copied"]) == (8, found["counts"])


def model(num_registered, error=1.0, zoom=1.0):
    return SimpleNamespace(
        images={i: SimpleNamespace(name=str(i), camera_id=i) for i in range(num_registered)},
        cameras={i: SimpleNamespace(focal_length=zoom if i % 2 else 1.0) for i in range(num_registered)},
        num_reg_images=lambda: num_registered,
        compute_mean_reprojection_error=lambda: error,
    )


@pytest.mark.parametrize(
    ("models", "error", "zoom", "expected"),
    [
        ([], 1, 1, False),
        ([model(7)], 1, 1, False),
        ([model(8)], 0.95, 1.5, True),
        ([model(8)], 0.85, 1.5, False),
        ([model(8)], 0.85, 1.1, True),
    ],
)
def test_one_camera_must_fit_as_well(monkeypatch, models, error, zoom, expected):
    def adjust(library, split, *args):
        split.compute_mean_reprojection_error = lambda: error

    monkeypatch.setattr(colmap_worker, "_adjust", adjust)
    monkeypatch.setattr(colmap_worker, "_with_fewer_points", lambda *args: None)
    monkeypatch.setattr(colmap_worker, "_split_cameras", lambda *args: model(8, 1.0, zoom))
    assert colmap_worker._is_shared(None, models, set("01234567"), 10) == expected
    assert colmap_worker._is_shared(None, [model(7)], set("0123456"), 7), "too few to compare"


@pytest.mark.parametrize(("num_separate", "kept"), [(9, "separate"), (7, "separate"), (6, "shared"), (0, "shared")])
def test_the_mapping_with_more_photographs_is_kept(tmp_path, monkeypatch, num_separate, kept):
    (tmp_path / "database.db").write_text("shared")
    monkeypatch.setattr(colmap_worker, "register", lambda library, path, *args: path.write_text("separate"))
    monkeypatch.setattr(colmap_worker, "copy_matches", lambda *args: None)
    separate = [model(num_separate)] if num_separate else []
    monkeypatch.setattr(colmap_worker, "_map", lambda *args: separate)
    shared = [model(7)]
    found = colmap_worker._map_separately(None, shared, tmp_path / "database.db", tmp_path, {"groups": []})
    assert found is (shared if kept == "shared" else separate)
    assert [path.read_text() for path in tmp_path.glob("*.db")] == [kept]


@pytest.mark.parametrize("is_refined", [True, False])
def test_lenses_are_refined_before_models_are_written(monkeypatch, tmp_path, is_refined):
    """And these before what may fail: rotations by pairs, and the spread of poses."""
    written, colored = [], []
    monkeypatch.setattr(colmap_worker, "_color_points", lambda model, images: colored.append(model))
    for name in ("register", "extract", "match", "verify", "send", "end_with_parent"):
        monkeypatch.setattr(colmap_worker, name, lambda *args, **message: None)
    monkeypatch.setattr(colmap_worker, "_map", lambda *args: ["folded"])
    monkeypatch.setattr(colmap_worker, "_without_lookalikes", lambda library, models, *args: ["model"] * len(models))
    monkeypatch.setattr(colmap_worker, "_with_refined_lens", lambda library, found, num: f"{found} of {num}, refined")
    monkeypatch.setattr(colmap_worker, "_write", lambda library, models, *args: written.extend(models) or {})
    monkeypatch.setattr(colmap_worker, "_turns_of_few", lambda *args: written.append("turns"))
    monkeypatch.setattr(colmap_worker, "_spread_if_known", lambda *args: written.append("spread"))
    job = {
        "seed": 0,
        "scene": str(tmp_path),
        "groups": [],
        "sizes": [],
        "names": ["a", "b"],
        "refines_lens": is_refined,
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(job) + "\n"))
    monkeypatch.setitem(sys.modules, "pycolmap", MagicMock())
    colmap_worker.main()
    assert written == [*colored, "turns", "spread"]
    assert colored == ["model of 2, refined" if is_refined else "model"]


@pytest.mark.parametrize(
    ("num", "error", "spread"), [(500, None, 0.3), (501, None, 0), (9, RuntimeError, 0), (9, MemoryError, 0)]
)
def test_the_spread_of_poses_is_unknown_for_large_models_and_after_errors(monkeypatch, num, error, spread):
    monkeypatch.setattr(colmap_worker, "_spread", MagicMock(return_value=0.3, side_effect=error))
    model = MagicMock(num_reg_images=lambda: num)
    assert colmap_worker._spread_if_known(None, [model, MagicMock()], {}) == spread
    assert colmap_worker._spread_if_known(None, [], {}) == 0

"""transforms.json and Blender's files give back the original cameras."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.device import open_backend
from splat_cli.errors import SceneError
from splat_cli.sample import make_sample_scene
from splat_cli.scene import SceneOptions, load_images, read_scene
from splat_cli.scene.colmap.model import Camera, lens_of
from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.lens.distortion import FTheta, Polynomial
from tests.scene.transforms_files import (
    NERFSTUDIO_APPLIED,
    frame_entry,
    intrinsics,
    write_blender,
    write_photographs,
    write_point_cloud,
    write_transforms,
)
from tests.views import ring_of_views


def assert_same_cameras(views, expected):
    assert len(views) == len(expected)
    for view, other in zip(views, expected, strict=True):
        np.testing.assert_allclose(view.w2c, other.w2c, atol=1e-9)
        for name in ("width", "height", "fx", "fy", "cx", "cy"):
            assert getattr(view, name) == pytest.approx(getattr(other, name), abs=1e-9)


def test_ftheta(tmp_path):
    """gsplat's parameters: the radius in pixels is 20 a + 2 a^2 - a^3."""
    model = {"camera_model": "FTHETA", "angle_to_pixeldist_poly": [0, 20, 2, -1], "linear_cde": [1.05, 0, 0]}
    view = read_scene(write_transforms(tmp_path, **model), SceneOptions(lens="keep")).views[0]
    assert (view.fx, view.fy) == (21.0, 20.0)
    assert view.distortion == FTheta((0.1, -0.05))
    angle = 1.2
    pixel = view.distortion.project(np.array([0.0, np.sin(angle), np.cos(angle)])) * [view.fx, view.fy]
    np.testing.assert_allclose(pixel, [0, 20 * angle + 2 * angle**2 - angle**3])
    del model["linear_cde"]  # no shear, and no factor
    view = read_scene(write_transforms(tmp_path / "plain", **model), SceneOptions(lens="keep")).views[0]
    assert (view.fx, view.fy) == (20.0, 20.0)


MOTION = RollingShutter((0.1, -0.05, 0.02), (0.3, -0.2, 0.1))


@pytest.mark.parametrize("applied", [None, [[0, -2, 0, 3], [2, 0, 0, -1], [0, 0, 2, 0.5]]], ids=["none", "scaled"])
def test_rolling_shutter(tmp_path, applied):
    """Poses at times 0 and 1; the top row is taken at 0.2, the bottom row at 0.8. Only --lens keep uses it."""
    views = ring_of_views(3)
    frames = []
    for view in views:
        ends = [dataclasses.replace(view, w2c=MOTION.pose(view.w2c, time)) for time in (-0.5, 0.5)]
        start, end = (frame_entry(one, applied)["transform_matrix"] for one in ends)
        frames.append({**frame_entry(view, applied), "transform_matrix_start": start, "transform_matrix_end": end})
        del frames[-1]["transform_matrix"]
    document = {} if applied is None else {"applied_transform": applied}
    write_transforms(tmp_path, views, frames, rolling_shutter=[0.2, 0, 0.6, 0], **document)
    kept = read_scene(tmp_path, SceneOptions(lens="keep")).views
    assert_same_cameras(kept, views)
    for view in kept:
        np.testing.assert_allclose(view.rolling_shutter.rotation, 0.6 * np.array(MOTION.rotation), atol=1e-9)
        np.testing.assert_allclose(view.rolling_shutter.shift, 0.6 * np.array(MOTION.shift), atol=1e-9)
        assert view.distortion == Polynomial()
    plain = read_scene(tmp_path).views
    assert_same_cameras(plain, views)
    assert {view.rolling_shutter for view in plain} == {None}


def test_without_times_the_whole_picture_is_taken_at_the_start(tmp_path):
    """As in instant-ngp, whose default of `rolling_shutter` is zeros."""
    views = ring_of_views(3)
    moved = [dataclasses.replace(view, w2c=MOTION.pose(view.w2c, 0.5)) for view in views]
    frames = [frame_entry(view) for view in views]
    for frame, end in zip(frames, moved, strict=True):
        frame["transform_matrix_end"] = frame_entry(end)["transform_matrix"]
        frame["transform_matrix_start"] = frame.pop("transform_matrix")
    found = read_scene(write_transforms(tmp_path, views, frames), SceneOptions(lens="keep")).views
    assert_same_cameras(found, views)
    assert {view.rolling_shutter for view in found} == {None}


SIMILARITY = [[0, -2, 0, 3], [2, 0, 0, -1], [0, 0, 2, 0.5]]


@pytest.mark.parametrize("applied", [None, NERFSTUDIO_APPLIED, SIMILARITY], ids=["none", "nerfstudio's", "scaled"])
def test_cameras_and_points_come_back(tmp_path, applied):
    views, rng = ring_of_views(5), np.random.default_rng(0)
    positions, colors = rng.normal(size=(7, 3)), rng.integers(0, 256, (7, 3), dtype=np.uint8)
    document = {"ply_file_path": "points.ply"}
    moved = positions
    if applied is not None:
        document["applied_transform"] = applied
        moved = positions @ np.array(applied)[:, :3].T + np.array(applied)[:, 3]
    write_transforms(tmp_path, views, [frame_entry(view, applied) for view in views], **document)
    write_point_cloud(tmp_path / "points.ply", moved, colors)
    scene = read_scene(tmp_path)
    assert_same_cameras(scene.views, views)
    assert [view.name for view in scene.views] == [f"images/{view.name}" for view in views]
    np.testing.assert_allclose(scene.points, positions, atol=1e-5)
    np.testing.assert_array_equal(scene.colors, colors)
    assert "transforms.json" in scene.found


def test_same_picture_from_colmap_and_from_transforms(tmp_path):
    """Checks the axes of both formats by rendering the points from the first camera of each."""
    from splat_cli.gaussians.from_points import splats_from_points
    from splat_cli.gaussians.splats import Splats
    from tests.views import render_view

    make_sample_scene(tmp_path, num_views=4, width=64, height=48)
    colmap = read_scene(tmp_path, SceneOptions(format="colmap"))
    frames = [frame_entry(view, NERFSTUDIO_APPLIED) for view in colmap.views]
    document = {**intrinsics(colmap.views[0]), "applied_transform": NERFSTUDIO_APPLIED, "frames": frames}
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    transforms = read_scene(tmp_path, SceneOptions(format="transforms"))
    backend = open_backend("cpu")
    splats = Splats.from_arrays(backend, splats_from_points(backend, colmap.points, colmap.colors, 0, opacity=0.9))
    pictures = [render_view(backend, splats, scene.views[0]) for scene in (colmap, transforms)]
    assert np.abs(pictures[0] - pictures[1]).max() < 1e-4
    (photograph,) = load_images(transforms.views[:1]).images
    assert np.abs(pictures[1] - photograph / 255).mean() < 0.2  # the points' splats already resemble the photograph


def test_lens_of_each_frame(tmp_path):
    views = ring_of_views(3)
    own = {"fl_x": 50.0, "fl_y": 51.0, "cx": 10.0, "cy": 12.0, "k1": 0.1, "k2": 0.02, "p1": 0.003, "p2": 0.004}
    write_transforms(tmp_path, views, [frame_entry(views[0]), frame_entry(views[1], **own), frame_entry(views[2])])
    plain, bent, other = read_scene(tmp_path).views
    assert plain.camera_id == other.camera_id != bent.camera_id
    assert plain.lens is None
    assert bent.lens.fx == 50
    assert bent.lens.distortion == Polynomial(radial=(0.1, 0.02, 0.0, 0.0), tangential=(0.003, 0.004))
    angle = {"camera_angle_x": np.pi / 2, "camera_angle_y": np.pi / 2}
    write_transforms(tmp_path, views, [frame_entry(views[0], **angle)])
    assert read_scene(tmp_path).views[0].fx == pytest.approx(views[0].width / 2)


@pytest.mark.parametrize("key", [{"camera_model": "OPENCV_FISHEYE"}, {"is_fisheye": True}])
def test_fisheye(tmp_path, key):
    view = read_scene(write_transforms(tmp_path, k1=0.01, k2=0.002, **key)).views[0]
    assert view.lens.distortion == Polynomial(radial=(0.01, 0.002, 0.0, 0.0), fisheye=True)


def test_no_held_out_names(tmp_path):
    scene = read_scene(write_transforms(tmp_path, test_filenames=[], val_filenames=None))
    assert scene.test_names is None
    assert scene.found == f"the frames in {tmp_path / 'transforms.json'}"


def test_keys_that_are_not_read_are_named(tmp_path):
    """Such as `time` of scenes that move."""
    views = ring_of_views(2)
    frames = [frame_entry(views[0], sharpness=3), frame_entry(views[1], time=0.5, w=40)]
    write_transforms(tmp_path, views, frames, aabb_scale=16, a=1, b=2, c=3)
    assert read_scene(tmp_path).found.endswith("transforms.json (not read: a, b, c, ...)")
    write_transforms(tmp_path, views, frames, aabb_scale=16)
    assert read_scene(tmp_path).found.endswith("transforms.json (not read: time)")


@pytest.mark.parametrize("key", ["test_filenames", "val_filenames"])
def test_held_out_names_that_are_not_a_list_are_refused(tmp_path, key):
    write_transforms(tmp_path, **{key: "images/a_01.jpg"})
    with pytest.raises(SceneError, match=f"`{key}` is 'images/a_01.jpg', expected a list"):
        read_scene(tmp_path)


@pytest.mark.parametrize("key", [{"ftheta_p0": 0.0}, {"latlong": True}, {"from_na": True}, {"from_mitsuba": 1}])
def test_keys_that_change_rays_are_not_ignored(tmp_path, key):
    write_transforms(tmp_path, **key)
    with pytest.raises(SceneError, match=f"its `{next(iter(key))}`, of instant-ngp, changes rays"):
        read_scene(tmp_path)
    assert len(read_scene(write_transforms(tmp_path, from_mitsuba=False, latlong=None)).views) == 5


@pytest.mark.parametrize("lens", [{"k5": 0.1}, {"sx1": 0.1}, {"camera_model": "OPENCV_FISHEYE", "p1": 0.1}])
def test_coefficients_that_a_camera_model_lacks_are_not_ignored(tmp_path, lens):
    with pytest.raises(SceneError, match=f"its lens has `{next(iter(reversed(lens)))}`, which its camera model"):
        read_scene(write_transforms(tmp_path, **lens))
    none = {key: 0.0 for key in lens if key != "camera_model"}
    assert len(read_scene(write_transforms(tmp_path, **{**lens, **none})).views) == 5


def test_opencvs_rational_lens_is_colmaps(tmp_path):
    radial, tangential = (0.2, 0.05, 0.01, 0.3, 0.02, 0.01), (0.004, -0.003)
    values = {f"k{number}": value for number, value in enumerate(radial, 1)} | {"p1": 0.004, "p2": -0.003}
    view = read_scene(write_transforms(tmp_path, camera_model="FULL_OPENCV", **values)).views[0]
    camera = Camera(1, "FULL_OPENCV", 10, 10, (9, 9, 5, 5, *radial[:2], *tangential, *radial[2:]))
    assert view.lens.distortion.coefficients() == lens_of(camera).distortion.coefficients()


def test_focal_length_from_the_angle_of_view(tmp_path):
    views = ring_of_views(2)
    write_photographs(tmp_path, views)
    document = {"camera_angle_x": 1.2, "frames": [frame_entry(view) for view in views]}
    (tmp_path / "transforms.json").write_text(json.dumps(document))
    view = read_scene(tmp_path).views[0]
    assert view.fx == view.fy == pytest.approx(20 / np.tan(0.6))
    assert (view.cx, view.cy) == (20, 15)


def test_masks_of_frames(tmp_path):
    views = ring_of_views(2)
    write_transforms(tmp_path, views, [frame_entry(view, mask_path=f"masks/{view.name}") for view in views])
    assert read_scene(tmp_path).views[0].mask == tmp_path / "masks" / views[0].name
    assert read_scene(tmp_path, SceneOptions(masks="none")).views[0].mask is None
    other = tmp_path / "others" / "images" / f"{views[0].name}.png"
    other.parent.mkdir(parents=True)
    other.touch()
    assert [view.mask for view in read_scene(tmp_path, SceneOptions(masks="others")).views] == [other, None]


def test_split_of_the_dataset(tmp_path):
    views = ring_of_views(3)
    write_transforms(tmp_path, views, test_filenames=[f"images/{views[1].name}"])
    assert read_scene(tmp_path).test_names == {f"images/{views[1].name}"}
    write_transforms(tmp_path, views, val_filenames=[f"images/{views[2].name}"])
    assert read_scene(tmp_path).test_names == {f"images/{views[2].name}"}


def test_photographs_in_no_part_of_the_split_are_left_out(tmp_path):
    """nerfstudio trains on those of `train_filenames` only; of two other lists, `test_filenames` is scored."""
    views = ring_of_views(4)
    names = [f"images/{view.name}" for view in views]
    lists = {"train_filenames": names[:2], "val_filenames": names[2:3], "test_filenames": names[3:]}
    scene = read_scene(write_transforms(tmp_path, views, **lists))
    assert [view.name for view in scene.views] == [*names[:2], names[3]]
    assert scene.skipped == [f"{names[2]}: not to be trained on, nor in `test_filenames`"]
    del lists["train_filenames"]
    assert [view.name for view in read_scene(write_transforms(tmp_path, views, **lists)).views] == [
        *names[:2],
        names[3],
    ]


@pytest.mark.parametrize("key", ["test_filenames", "val_filenames"])
def test_photographs_that_are_trained_on_and_tested_are_held_out_and_named(tmp_path, key):
    views = ring_of_views(4)
    names = [f"images/{view.name}" for view in views]
    lists = {"train_filenames": names[:3], key: [f"./{name}" for name in names[2:]]}
    scene = read_scene(write_transforms(tmp_path, views, **lists))
    assert scene.test_names == frozenset(names[2:])
    assert scene.found.endswith(f" ({names[2]}: in train_filenames and {key}, held out with --eval)")
    lists = {"train_filenames": names[:2], "test_filenames": names[2:], "val_filenames": names[2:]}
    assert "held out" not in read_scene(write_transforms(tmp_path, views, **lists)).found


@pytest.mark.parametrize("kind", ["train", "test"])
def test_keys_of_nerfstudio_are_named_in_files_of_blender(tmp_path, kind):
    """They were passed over, as if they were read."""
    write_blender(tmp_path)
    path = tmp_path / f"transforms_{kind}.json"
    more = {"ply_file_path": "points.ply", "applied_transform": NERFSTUDIO_APPLIED}
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    assert read_scene(tmp_path).found.endswith(" (not read: applied_transform, ply_file_path)")


def test_frames_of_both_files_of_blender_are_held_out_and_named(tmp_path):
    write_blender(tmp_path)
    document = json.loads((tmp_path / "transforms_train.json").read_text())
    frames = json.loads((tmp_path / "transforms_test.json").read_text())["frames"]
    (tmp_path / "transforms_train.json").write_text(json.dumps({**document, "frames": document["frames"] + frames[:1]}))
    scene = read_scene(tmp_path)
    assert scene.test_names == {"test/r_0.png", "test/r_1.png"}
    assert scene.found.endswith(
        " (test/r_0.png: in transforms_train.json and transforms_test.json, held out with --eval)"
    )


def test_transposed_poses_are_left_out(tmp_path):
    """Their cameras would all be at the origin."""
    views = ring_of_views(3)
    frames = [frame_entry(view) for view in views]
    frames[1]["transform_matrix"] = np.transpose(frames[1]["transform_matrix"]).tolist()
    write_transforms(tmp_path, views, frames)
    scene = read_scene(tmp_path)
    assert len(scene.views) == 2
    assert "with a last row of 0 0 0 1" in scene.skipped[0]


@pytest.mark.parametrize("text", [True, False])
def test_points_without_colours_are_grey(tmp_path, text):
    write_transforms(tmp_path, ply_file_path="p.ply")
    write_point_cloud(tmp_path / "p.ply", np.arange(6).reshape(2, 3), text=text)
    scene = read_scene(tmp_path)
    np.testing.assert_array_equal(scene.points, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(scene.colors, np.full((2, 3), 128))


def test_blender(tmp_path):
    scene = read_scene(write_blender(tmp_path))
    assert [view.name for view in scene.views] == [
        "test/r_0.png",
        "test/r_1.png",
        "train/r_0.png",
        "train/r_1.png",
        "train/r_2.png",
        "train/r_3.png",
    ]
    assert scene.test_names == {"test/r_0.png", "test/r_1.png"}
    assert len(scene.points) == 0
    expected = ring_of_views(6, 20, 20)
    for view, other in zip(scene.views, [*expected[4:], *expected[:4]], strict=True):
        np.testing.assert_allclose(view.w2c, other.w2c, atol=1e-9)
        assert view.fx == view.fy == pytest.approx(10 / np.tan(0.35))
    (image,) = load_images(scene.views[:1], background=(255, 255, 255)).images
    assert (image[:10] == 255).all()
    assert (image[10:] == 200).all()


@pytest.mark.parametrize(
    "place",
    [
        "/home/somebody/scenes/room/images/{}",
        "C:\\scenes\\room\\images\\{}",
        "./data\\room\\images/{}",
        "./data/room/images/{}",
        "../room/images/{}",
        "images/{}",
    ],
)
def test_paths_of_another_folder_or_computer(tmp_path, place):
    """colmap2nerf.py of instant-ngp writes paths from where it ran, with both kinds of slashes on Windows."""
    views = ring_of_views(3)
    masks = place.replace("images", "masks")
    entries = [
        frame_entry(view) | {"file_path": place.format(view.name), "mask_path": masks.format(view.name)}
        for view in views
    ]
    write_transforms(tmp_path, views, entries, test_filenames=[place.format(views[1].name)])
    (tmp_path / "masks").mkdir()
    for view in views:
        Picture.new("L", (view.width, view.height), 255).save(tmp_path / "masks" / view.name)
    scene = read_scene(tmp_path)
    assert [view.name for view in scene.views] == [f"images/{view.name}" for view in views]
    assert [view.mask for view in scene.views] == [tmp_path / "masks" / view.name for view in views]
    assert scene.test_names == {f"images/{views[1].name}"}


def test_name_without_folder_is_ambiguous(tmp_path):
    """Cameras of a rig may use the same file names, so a bare name only counts in a folder that the user gives."""
    views = ring_of_views(3)
    write_transforms(tmp_path, views, [frame_entry(view) | {"file_path": f"left/{view.name}"} for view in views])
    for view in views:
        (tmp_path / "images" / view.name).rename(tmp_path / view.name)
    with pytest.raises(SceneError, match="none of the 3 photographs"):
        read_scene(tmp_path)
    assert len(read_scene(tmp_path, SceneOptions(images=".")).views) == 3


def test_byte_order_mark(tmp_path):
    path = write_transforms(tmp_path) / "transforms.json"
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert len(read_scene(tmp_path).views) == 5


def test_homogeneous_matrices(tmp_path):
    """The last number of the matrix is not 1; the others are divided by it."""
    views = ring_of_views(3)
    entries = [frame_entry(view) for view in views]
    for entry in entries:
        entry["transform_matrix"] = (0.001 * np.array(entry["transform_matrix"])).tolist()
    assert_same_cameras(read_scene(write_transforms(tmp_path, views, entries)).views, views)


def test_blender_photographs_may_have_upper_case_suffixes(tmp_path):
    scene = write_blender(tmp_path)
    for path in (scene / "train").iterdir():
        path.rename(path.with_suffix(".PNG"))
    assert read_scene(scene).skipped == []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "test",
            "has none of the photographs that the dataset holds out (./test/r_0: the file is missing): restore them",
        ),
        ("train", "all 2 photographs of"),
    ],
)
def test_missing_half_of_the_blender_photographs(splat, tmp_path, kind, message):
    scene = write_blender(tmp_path / "scene")
    shutil.rmtree(scene / kind)
    result = splat("train", scene, "-o", tmp_path / "run", "--eval", "--steps", "1", "--device", "cpu")
    assert (result.code, result.err.count("\n"), message in result.err) == (2, 1, True), result.err


@pytest.mark.parametrize("axis", ["x", "y"])
def test_an_angle_of_view_that_differs_from_the_focal_length_is_named(tmp_path, axis):
    views = ring_of_views(3)
    sides = {"x": (views[0].width, views[0].fx), "y": (views[0].height, views[0].fy)}
    side, length = sides[axis]
    write_transforms(tmp_path, views, **{f"camera_angle_{axis}": 2 * math.atan(side / (2 * length))})
    assert "not read" not in read_scene(tmp_path).found
    for angle in (2.0, 0, 4.0):
        write_transforms(tmp_path, views, **{f"camera_angle_{axis}": angle})
        scene = read_scene(tmp_path)
        assert f"(not read: camera_angle_{axis}, which differs from fl_{axis})" in scene.found
        assert (scene.views[0].fx, scene.views[0].fy) == (views[0].fx, views[0].fy)


def test_focal_lengths_of_blendernerf(tmp_path):
    """It writes the angles of Blender's sensor of 36 x 24 mm, and focal lengths of the picture."""
    views = ring_of_views(3, 32, 32)
    focal = views[0].fx
    lens = 36 * focal / 32  # mm
    angles = {"camera_angle_x": 2 * math.atan(18 / lens), "camera_angle_y": 2 * math.atan(12 / lens)}
    write_transforms(tmp_path, views, **angles, fl_x=focal, fl_y=focal, k1=0.0, w=32.0, h=32.0, aabb_scale=4)
    scene = read_scene(tmp_path)
    assert [(view.fx, view.fy) for view in scene.views] == [(focal, focal)] * 3
    assert "(not read: camera_angle_y, which differs from fl_y)" in scene.found


@pytest.mark.parametrize("wrong", [{"fl_x": 0}, {"fl_x": -35.0}, {"camera_angle_x": 0}, {"camera_angle_x": 4.0}])
def test_a_focal_length_that_is_not_positive_is_not_replaced_by_the_other(tmp_path, wrong):
    write_transforms(tmp_path, ring_of_views(3), **{"fl_x": None, "camera_angle_x": 0.8, **wrong})
    with pytest.raises(SceneError, match="focal length along x is not positive"):
        read_scene(tmp_path)

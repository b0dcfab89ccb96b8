"""Reading of a folder: photographs, their sizes, and reasons for leaving some out."""

import dataclasses

import numpy as np
import pytest
from PIL import Image as Picture

from splat_cli.device import open_backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.scene import SceneOptions, load_images, read_scene
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import MODEL_IDS, Camera, lens_of
from splat_cli.scene.lens import spherical_lens
from splat_cli.scene.lens.distortion import Equirectangular
from tests.scene.colmap_cameras import distorted_cameras
from tests.scene.models import PINHOLE, small_model, write_scene

FISHEYE = (15.0, 15.5, 20.0, 15.0, 0.02, -0.003, 0.0, 0.0)


@pytest.mark.parametrize("binary", [True, False])
def test_views(tmp_path, binary):
    model = small_model(("c.png", "deep/er/a.png", "b.png"))
    scene = read_scene(write_scene(tmp_path, model, binary))
    assert [view.name for view in scene.views] == ["b.png", "c.png", "deep/er/a.png"]
    assert scene.views[2].path == tmp_path / "images" / "deep" / "er" / "a.png"
    assert scene.skipped == []
    view = scene.views[1]
    assert (view.width, view.height, view.fx, view.fy, view.cx, view.cy) == (40, 30, 35, 36, 21, 13)
    rotation = view.w2c[:3, :3]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1)
    np.testing.assert_allclose(view.w2c @ [*view.center, 1], [0, 0, 0, 1], atol=1e-12)
    assert scene.points.dtype == np.float32
    np.testing.assert_allclose(scene.points, model.points, rtol=1e-6)
    np.testing.assert_array_equal(scene.colors, model.colors)


def test_quaternion_is_w_x_y_z(tmp_path):
    model = small_model(("a.png",))
    half = np.sqrt(0.5)
    object.__setattr__(model.images[0], "quat", (half, 0.0, 0.0, half))  # a quarter turn about z: x becomes y
    view = read_scene(write_scene(tmp_path, model)).views[0]
    np.testing.assert_allclose(view.w2c[:3, :3] @ [1, 0, 0], [0, 1, 0], atol=1e-12)


def test_many_cameras(tmp_path):
    cameras = (PINHOLE, Camera(9, "SIMPLE_PINHOLE", 20, 50, (30.0, 10.0, 25.0)))
    views = read_scene(write_scene(tmp_path, small_model(cameras=cameras))).views
    assert [(view.width, view.fx, view.fy) for view in views] == [(40, 35, 36), (20, 30, 30), (40, 35, 36)]
    assert [view.camera_id for view in views] == [1, 9, 1]


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"downscale": 2}, (20, 15)),
        ({"max_size": 20}, (20, 15)),
        ({"max_size": 100}, (40, 30)),
        ({"max_size": 16, "downscale": 2}, (16, 12)),
        ({"downscale": 3}, (13, 10)),
    ],
)
def test_smaller_views_keep_their_rays(tmp_path, options, size):
    view = read_scene(write_scene(tmp_path, small_model()), SceneOptions(**options)).views[0]
    assert (view.width, view.height) == size
    np.testing.assert_allclose((view.cx / view.width, view.cy / view.height), (21 / 40, 13 / 30))
    np.testing.assert_allclose((view.fx / view.width, view.fy / view.height), (35 / 40, 36 / 30))


def test_photographs_of_another_size(tmp_path):
    scene_folder = write_scene(tmp_path, small_model())
    Picture.new("RGB", (80, 60)).save(tmp_path / "images" / "a.png")
    Picture.new("RGB", (30, 40)).save(tmp_path / "images" / "b.png")
    scene = read_scene(scene_folder)
    assert [view.name for view in scene.views] == ["a.png", "c.png"]
    assert (scene.views[0].width, scene.views[0].fx, scene.views[0].cy) == (80, 70, 26)
    assert scene.skipped == ["b.png: is 30x40, but its camera is 40x30: turn it as it was when poses were estimated"]


def test_other_image_folders(tmp_path):
    write_scene(tmp_path, small_model())
    (tmp_path / "images").rename(tmp_path / "images_2")
    assert len(read_scene(tmp_path, SceneOptions(images="images_2")).views) == 3
    assert len(read_scene(tmp_path, SceneOptions(images=tmp_path / "images_2")).views) == 3
    with pytest.raises(SceneError, match="--images DIR"):
        read_scene(tmp_path)


def test_the_folder_of_the_model_itself(tmp_path):
    write_scene(tmp_path, small_model())
    assert len(read_scene(tmp_path / "sparse" / "0").views) == 3


def test_a_larger_part_of_the_scene_is_named(tmp_path):
    """COLMAP writes disconnected parts as sparse/0, sparse/1, ...; the first need not be the largest."""
    write_scene(tmp_path, small_model(("a.png", "b.png")))
    assert read_scene(tmp_path).found == f"the COLMAP model in {tmp_path / 'sparse' / '0'}"
    write_model(tmp_path / "sparse" / "1", small_model(("a.png",)))
    (tmp_path / "sparse" / "2").mkdir()
    (tmp_path / "sparse" / "2" / "images.bin").write_bytes(b"\xff" * 9)
    assert "photographs" not in read_scene(tmp_path).found
    larger = tmp_path / "sparse" / "3"
    write_model(larger, small_model(("a.png", "b.png", "c.png")))
    named = f"({larger} has 3 photographs: give that folder for them)"
    assert read_scene(tmp_path).found.endswith(named)
    (larger / "images.bin").unlink()
    lines = [f"{i} 1 0 0 0 0 0 {i} 1 {name}.png\n\n" for i, name in enumerate("abc", 1)]
    (larger / "images.txt").write_text("".join(lines))
    assert read_scene(tmp_path).found.endswith(named)
    (larger / "images.txt").write_text("damaged")
    assert "photographs" not in read_scene(tmp_path).found


def test_a_photograph_at_two_poses_is_left_out(tmp_path):
    """As of two Metashape cameras with one label, from two folders of which one is there: any pose may be its own."""
    model = small_model(("a.png", "b.png", "c.png"))
    write_scene(tmp_path, model)
    for name, pose in (("a.png", (9.0, 0.0, 0.0)), ("B.png", (9.0, 0.0, 0.0)), ("c.png", model.images[2].translation)):
        image = next(image for image in model.images if image.name == name.lower())
        model.images.append(dataclasses.replace(image, name=name, translation=pose))
    write_model_again(tmp_path, model)
    scene = read_scene(tmp_path)
    assert [view.name for view in scene.views] == ["c.png"]
    assert scene.skipped == [
        "B.png: a second image of b.png",
        "a.png: a second image of this name",
        "a.png: an image of this name has another pose",
        "b.png: an image of this name has another pose",
        "c.png: a second image of this name",
    ]


def test_unusable_photographs_are_listed(tmp_path):
    names = (
        "good.png",
        "gone.png",
        "empty.png",
        "text.png",
        "nowhere.png",
        "unposed.png",
        "far.png",
        "flat.png",
        "bent.png",
        "turned.png",
    )
    model = small_model(names)
    write_scene(tmp_path, model)
    photos = tmp_path / "images"
    (photos / "gone.png").unlink()
    (photos / "empty.png").write_bytes(b"")
    (photos / "text.png").write_text("not an image")
    object.__setattr__(model.images[4], "camera_id", 77)
    object.__setattr__(model.images[5], "quat", (0.0, 0.0, 0.0, 0.0))
    object.__setattr__(model.images[6], "translation", (0.0, 1e300, 0.0))
    model.cameras[78] = Camera(78, "PINHOLE", 40, 30, (1e30, 1e30, 21.0, 13.0))
    object.__setattr__(model.images[7], "camera_id", 78)
    model.cameras[79] = Camera(79, "SIMPLE_RADIAL", 40, 30, (30.0, 20.0, 15.0, -9.0))
    object.__setattr__(model.images[8], "camera_id", 79)
    Picture.new("RGB", (30, 40)).save(photos / "turned.png")
    other = dataclasses.replace(model.images[0], name="GOOD.png")
    model.images += [model.images[0], other]
    write_model_again(tmp_path, model)
    scene = read_scene(tmp_path)
    assert [view.name for view in scene.views] == ["good.png"]
    assert scene.skipped == [
        "GOOD.png: a second image of good.png",
        "bent.png: its camera has a distortion that no lens has: it cannot be undone at the border; calibrate it again",
        "empty.png: the file is empty or not an image",
        "far.png: the position or lens of its camera has numbers that are not below 1e+18",
        "flat.png: the position or lens of its camera has numbers that are not below 1e+18",
        "gone.png: the file is missing",
        "good.png: a second image of this name",
        "nowhere.png: its camera 77 is not in the model",
        "text.png: the file is empty or not an image",
        "turned.png: is 30x40, but its camera is 40x30: turn it as it was when poses were estimated",
        "unposed.png: its pose is not finite",
    ]


@pytest.mark.parametrize(
    "name", ["../out.png", "sub/../../out.png", "/out.png", "nul\0.png", "x" * 5000, "images", "\udcff.png"]
)
def test_names_without_a_photograph_in_the_folder(tmp_path, name):
    model = small_model(("good.png", "x.png"))
    write_scene(tmp_path, model)
    Picture.new("RGB", (40, 30)).save(tmp_path / "out.png")
    (tmp_path / "images" / "images").mkdir()
    object.__setattr__(model.images[1], "name", name)
    write_model_again(tmp_path, model, binary=False)
    scene = read_scene(tmp_path)
    assert len(scene.views) == len(scene.skipped) == 1
    assert scene.skipped[0].isprintable()


@pytest.mark.parametrize("name", [f"{'1' * 300}.png", f"{'1' * 200}.png"])
def test_long_names_are_shortened_in_messages(tmp_path, name):
    model = small_model(("good.png", "x.png"))
    write_scene(tmp_path, model)
    object.__setattr__(model.images[1], "name", name)
    write_model_again(tmp_path, model, binary=False)
    (skipped,) = read_scene(tmp_path).skipped
    assert skipped.startswith(f"{'1' * 60}...{'1' * 26}.png: ")
    assert len(skipped) < 150


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("a.jpg", "a.JPG"),
        ("Sub/A.png", "sub/a.png"),
        ("images/a.png", "a.png"),
        ("C:\\x\\Images\\a.png", "a.png"),
        ("/home/x/images/sub/a.png", "sub/a.png"),
    ],
)
def test_names_that_differ_in_case_or_name_the_folder_are_found(tmp_path, name, file):
    write_scene(tmp_path, small_model((file, "b.png")))
    write_model_again(tmp_path, small_model((name, "b.png")), binary=False)
    assert {view.path.relative_to(tmp_path / "images").as_posix() for view in read_scene(tmp_path).views} == {
        file,
        "b.png",
    }


def test_names_of_two_files_that_differ_in_case_are_not_guessed(tmp_path):
    write_scene(tmp_path, small_model(("a.JPG", "A.jpg", "b.png")))
    if len(list((tmp_path / "images").iterdir())) < 3:
        pytest.skip("the file system takes names of any case for the same")
    write_model_again(tmp_path, small_model(("a.jpg", "A.jpg", "b.png")))
    scene = read_scene(tmp_path)
    assert [view.name for view in scene.views] == ["A.jpg", "b.png"]
    assert scene.skipped == ["a.jpg: the file is missing"]


def test_a_model_without_images_says_so(tmp_path):
    model = small_model()
    write_scene(tmp_path, model)
    model.images.clear()
    write_model_again(tmp_path, model)
    with pytest.raises(SceneError, match="sparse/0 names no photographs"):
        read_scene(tmp_path)


def test_a_folder_of_photographs_of_another_name_is_named(tmp_path):
    write_scene(tmp_path, small_model())
    (tmp_path / "images").rename(tmp_path / "Input")
    with pytest.raises(SceneError, match="with --images DIR, such as --images Input"):
        read_scene(tmp_path)


def test_nothing_usable(tmp_path):
    write_scene(tmp_path, small_model())
    for path in (tmp_path / "images").iterdir():
        path.unlink()
    with pytest.raises(SceneError, match=r"none of the 3 photographs.*a.png: the file is missing"):
        read_scene(tmp_path)


@pytest.mark.parametrize("camera", [pytest.param(camera, id=camera.model) for camera in distorted_cameras()])
def test_camera_with_distortion_becomes_a_pinhole_view(tmp_path, camera):
    scene = read_scene(write_scene(tmp_path, small_model(cameras=(camera,))))
    view = scene.views[0]
    pinhole = lens_of(camera).pinhole
    assert (view.width, view.height, view.fx, view.cy) == (pinhole.width, pinhole.height, pinhole.fx, pinhole.cy)
    photographs = load_images(scene.views, backend=open_backend("cpu"))
    assert photographs.images[0].shape == (view.height, view.width, 3)
    inner = photographs.images[0][20:-20, 20:-20]
    np.testing.assert_array_equal(inner, np.broadcast_to([10, 100, 200], inner.shape))


def test_distorted_photographs_at_half_the_size(tmp_path):
    camera = distorted_cameras()[2]
    write_scene(tmp_path, small_model(cameras=(camera,)))
    whole = read_scene(tmp_path).views[0]
    view = read_scene(tmp_path, SceneOptions(downscale=2)).views[0]
    assert (view.width, view.height) == (round(whole.width / 2), round(whole.height / 2))
    np.testing.assert_allclose(view.fx / view.width, whole.fx / whole.width)
    photographs = load_images([view], backend=open_backend("cpu"))
    assert photographs.images[0].shape == (view.height, view.width, 3)
    with pytest.raises(UsageError, match=r"the lens of a\.png has distortion.*: give backend=open_backend\(\)"):
        load_images([view])


def test_whole_spheres_are_not_undistorted(tmp_path):
    write_scene(tmp_path, small_model(cameras=(Camera(1, "EQUIRECTANGULAR", 40, 30, (40.0, 30.0)),)))
    view = read_scene(tmp_path).views[0]
    with pytest.raises(SceneError, match="is a spherical photograph"):
        _ = spherical_lens(40, 30).pinhole
    assert isinstance(view.distortion, Equirectangular)
    assert view.width % 16 == 0, "its edges do not meet in downscaled pictures"
    assert view.fx == pytest.approx(view.width / (2 * np.pi))


def test_lens_is_kept(tmp_path):
    """With --lens keep, the photograph keeps its size and its camera matrix; its undistorted picture is larger."""
    write_scene(tmp_path, small_model(cameras=(Camera(1, "OPENCV_FISHEYE", 40, 30, FISHEYE),)))
    view = read_scene(tmp_path, SceneOptions(lens="keep", downscale=2)).views[0]
    assert (view.width, view.height, view.fx, view.cx) == (20, 15, FISHEYE[0] / 2, FISHEYE[2] / 2)
    assert view.lens is None
    assert view.distortion == lens_of(Camera(1, "OPENCV_FISHEYE", 40, 30, FISHEYE)).distortion
    assert load_images([view]).images[0].shape == (15, 20, 3)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("num_used", [0, 1, 3])
def test_photographs_of_unknown_camera_models_are_left_out(tmp_path, monkeypatch, binary, num_used):
    with monkeypatch.context() as later:  # a future version of COLMAP
        later.setitem(MODEL_IDS, "STEREOGRAPHIC", 99)
        unknown = Camera(2, "STEREOGRAPHIC", 40, 30, tuple(map(float, range(1, 8))))
        model = small_model(cameras=(PINHOLE, unknown, dataclasses.replace(PINHOLE, id=3)))
        for number, image in enumerate(model.images):
            object.__setattr__(image, "camera_id", 2 if number < num_used else 3)
        write_scene(tmp_path, model, binary)
    said = f"camera 2 has the unknown camera model {'number 99' if binary else 'STEREOGRAPHIC'}: undistort the images"
    if num_used == 3:
        with pytest.raises(SceneError, match=rf"sparse/0: {said}"):
            read_scene(tmp_path)
        return
    scene = read_scene(tmp_path)
    assert len(scene.views) == 3 - num_used
    assert len(scene.skipped) == num_used
    assert all(f"a.png: its {said}" in line for line in scene.skipped)


@pytest.mark.parametrize("focal", [0.0, -35.0])
def test_focal_length_must_be_positive(tmp_path, focal):
    write_scene(tmp_path, small_model(cameras=(Camera(1, "PINHOLE", 40, 30, (35.0, focal, 20.0, 15.0)),)))
    with pytest.raises(SceneError, match="focal length"):
        read_scene(tmp_path)


def test_points_that_are_not_finite(tmp_path):
    model = small_model()
    model.points[1] = [np.nan, 0, 0]
    model.points[3] = [0, 1e300, 0]
    scene = read_scene(write_scene(tmp_path, model))
    assert scene.dropped_points == {"not finite": 2}
    assert len(scene.points) == len(scene.colors) == 3


@pytest.mark.parametrize("options", [{"downscale": 0}, {"max_size": 0}])
def test_senseless_options(tmp_path, options):
    with pytest.raises(SceneError, match="at least 1"):
        read_scene(write_scene(tmp_path, small_model()), SceneOptions(**options))


def test_not_a_folder(tmp_path):
    with pytest.raises(SceneError, match="does not exist"):
        read_scene(tmp_path / "nothing")
    with pytest.raises(SceneError, match="is an address: download it"):
        read_scene("https://example.org/garden")


def write_model_again(folder, model, binary=True):
    for path in (folder / "sparse" / "0").iterdir():
        path.unlink()
    write_model(folder / "sparse" / "0", model, binary)

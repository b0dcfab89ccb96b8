"""Exports of photogrammetry programs and phone apps: pixels of points by the programs' own formulas."""

import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

from splat_cli.errors import SceneError
from splat_cli.scene import SceneOptions, read_scene
from tests.scene.export_files import (
    BROWN,
    write_bundler,
    write_metashape,
    write_polycam,
    write_realityscan,
    write_record3d,
    write_scanner_app,
)
from tests.scene.export_pixels import POINTS, assert_same_pixels, pixels
from tests.views import ring_of_views


@pytest.fixture
def views():
    return ring_of_views(5)


@pytest.mark.parametrize("values", [{}, {**BROWN, "t1": 0.002, "t2": -0.003}], ids=["undistorted", "brown"])
def test_realityscan(tmp_path, values):
    views = [dataclasses.replace(view, fy=view.fx) for view in ring_of_views(5)]
    write_realityscan(tmp_path, views, **values)
    expected = []
    for view in views:
        x, y = ((pixels(view) - [view.cx, view.cy]) / view.fx).T
        r2 = x * x + y * y
        radial = 1 + sum(values.get(f"k{n}", 0) * r2**n for n in (1, 2, 3, 4))
        t1, t2 = values.get("t1", 0), values.get("t2", 0)
        bent_x = x * radial + 2 * t2 * x * y + t1 * (r2 + 2 * x * x)  # OpenCV's p1 is t2, and its p2 is t1
        bent_y = y * radial + 2 * t1 * x * y + t2 * (r2 + 2 * y * y)
        expected.append(np.stack([bent_x, bent_y], axis=-1) * view.fx + [view.cx, view.cy])
    assert_same_pixels(read_scene(tmp_path), expected)


def test_coefficients_that_are_not_read_are_not_ignored(tmp_path, views):
    write_realityscan(tmp_path, [dataclasses.replace(view, fy=view.fx) for view in views], k4=0.1)
    path = tmp_path / "registration.csv"
    path.write_text(path.read_text().replace("k4", "k5"))
    with pytest.raises(SceneError, match="its lens has `k5`, which"):
        read_scene(tmp_path)


def test_realityscan_without_columns_of_distortion(tmp_path):
    views = [dataclasses.replace(view, fy=view.fx, cx=20.0, cy=15.0) for view in ring_of_views(5)]
    write_realityscan(tmp_path, views)
    path = tmp_path / "registration.csv"
    lines = path.read_text().splitlines()[1:]
    path.write_text("\n".join(",".join(line.split(",")[:8]) for line in lines))
    assert_same_pixels(read_scene(tmp_path), [pixels(view) for view in views])


def test_realityscan_with_the_names_of_its_newer_versions(tmp_path):
    views = [dataclasses.replace(view, fy=view.fx) for view in ring_of_views(5)]
    write_realityscan(tmp_path, views)
    path = tmp_path / "registration.csv"
    text = path.read_text()
    path.write_text(text.replace("heading,pitch,roll,f,px,py", "yaw,pitch,roll,f_35mm,px_norm,py_norm"))
    assert_same_pixels(read_scene(tmp_path), [pixels(view) for view in views])
    path.write_text(text.replace("roll,f,px", "roll,g,px"))
    with pytest.raises(SceneError, match="has no focal lengths, column f: export"):
        read_scene(tmp_path)


def test_a_transposed_pose_is_left_out(tmp_path, views):
    write_scanner_app(tmp_path, views)
    path = tmp_path / "frame_00002.json"
    content = json.loads(path.read_text())
    content["cameraPoseARFrame"] = np.reshape(content["cameraPoseARFrame"], (4, 4)).T.ravel().tolist()
    path.write_text(json.dumps(content))
    assert "it may be transposed" in read_scene(tmp_path).skipped[0]


def test_bundler(tmp_path):
    views = [dataclasses.replace(view, fy=view.fx, cx=20.0, cy=15.0) for view in ring_of_views(5)]
    colors = np.random.default_rng(1).integers(0, 256, (len(POINTS), 3), dtype=np.uint8)
    write_bundler(tmp_path, views, POINTS, colors, k1=0.03, k2=-0.01)
    expected = []
    for view in views:
        flat = (pixels(view) - [view.cx, view.cy]) / view.fx
        r2 = (flat**2).sum(axis=1, keepdims=True)
        expected.append(flat * (1 + 0.03 * r2 - 0.01 * r2**2) * view.fx + [view.cx, view.cy])
    scene = read_scene(tmp_path)
    assert_same_pixels(scene, expected)
    np.testing.assert_allclose(scene.points, POINTS, atol=1e-6)
    np.testing.assert_array_equal(scene.colors, colors)


def test_bundler_with_names_of_several_words(tmp_path, views):
    """COLMAP and Metashape write only names. Bundler itself adds "0" and the focal length in pixels."""
    write_bundler(tmp_path, views, POINTS, np.zeros((len(POINTS), 3), int))
    names = (tmp_path / "list.txt").read_text().replace("a_0", "photo of 0").splitlines()
    (tmp_path / "list.txt").write_text("\r\n".join([names[0].removesuffix(" 0 35.0"), *names[1:]]))
    for view in views:
        (tmp_path / "images" / view.name).rename(tmp_path / "images" / view.name.replace("a_0", "photo of 0"))
    assert len(read_scene(tmp_path).views) == 5


def test_bundler_with_photographs_that_were_downscaled(tmp_path, views):
    """The focal length is in pixels of a size that the file does not state."""
    write_bundler(tmp_path, views, POINTS, np.zeros((len(POINTS), 3), int))
    seen = (tmp_path / "bundle.out").read_text().replace("0 0 1.0 2.0 1 0 3.0 4.0", "0 0 1.0 -14.0 1 0 -19.0 4.0")
    (tmp_path / "bundle.out").write_text(seen)
    assert len(read_scene(tmp_path).views) == 5
    for view in views:
        path = tmp_path / "images" / view.name
        Image.open(path).resize((20, 15)).save(path)
    skipped = read_scene(tmp_path).skipped
    assert "images/a_00.jpg: is 20x15, but its camera saw points across 2x28: use the original size" in skipped
    assert "images/a_01.jpg: is 20x15, but its camera saw points across 38x8: use the original size" in skipped


def test_bundler_without_its_list(tmp_path, views):
    write_bundler(tmp_path, views, POINTS, np.zeros((len(POINTS), 3), int))
    (tmp_path / "list.txt").unlink()
    with pytest.raises(SceneError, match=r"there is no list\.txt"):
        read_scene(tmp_path)


@pytest.mark.parametrize("write", [write_polycam, write_scanner_app, write_record3d], ids=lambda write: write.__name__)
def test_phones(tmp_path, views, write):
    write(tmp_path, views)
    scene = read_scene(tmp_path)
    assert_same_pixels(scene, [pixels(view) for view in views])
    assert scene.skipped == []
    for path in [*tmp_path.rglob("*.json"), *tmp_path.glob("metadata")]:
        path.write_text(json.dumps({**json.loads(path.read_text()), "k1": 0.1}))
    with pytest.raises(SceneError, match="its lens has `k1`, which its camera model does not have here"):
        read_scene(tmp_path)


def test_corrected_cameras_of_polycam_come_first(tmp_path, views):
    write_polycam(tmp_path, views)
    frames = tmp_path / "keyframes"
    (frames / "cameras").rename(frames / "corrected_cameras")
    (frames / "images").rename(frames / "corrected_images")
    (frames / "cameras").mkdir()
    (frames / "cameras" / "1.json").write_text("{}")
    assert "corrected_cameras" in read_scene(tmp_path).found


def test_record3d_with_a_lens_for_each_frame(tmp_path, views):
    write_record3d(tmp_path, views, per_frame=True)
    assert_same_pixels(read_scene(tmp_path), [pixels(view) for view in views])
    path = tmp_path / "metadata.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "perFrameIntrinsicCoeffs": values["perFrameIntrinsicCoeffs"][1:]}))
    with pytest.raises(SceneError, match="not a list of one lens per pose"):
        read_scene(tmp_path)


def test_record3d_with_an_empty_list_of_lenses(tmp_path, views):
    """K is then the lens of all."""
    write_record3d(tmp_path, views)
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "perFrameIntrinsicCoeffs": []}))
    assert [view.fx for view in read_scene(tmp_path).views] == pytest.approx([views[0].fx] * len(views))


def test_record3d_as_it_lies_in_an_r3d_file(tmp_path, views):
    write_record3d(tmp_path, views)
    (tmp_path / "rgb").rename(tmp_path / "rgbd")
    (tmp_path / "metadata.json").rename(tmp_path / "metadata")
    assert len(read_scene(tmp_path).views) == 5


def test_a_frame_that_is_damaged_is_left_out(tmp_path, views):
    write_polycam(tmp_path, views)
    path = tmp_path / "keyframes/cameras/a_01.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "t_03": "far"}))
    scene = read_scene(tmp_path)
    assert len(scene.views) == 4
    assert scene.skipped == ["a_01.json: its `t_03` is not a finite number"]


def test_photographs_elsewhere(tmp_path, views):
    write_metashape(tmp_path, views)
    (tmp_path / "images").rename(tmp_path / "undistorted")
    assert len(read_scene(tmp_path).views) == 5, "found in the folder itself, however deep"
    assert len(read_scene(tmp_path, SceneOptions(images="undistorted")).views) == 5
    for path in (tmp_path / "undistorted").iterdir():
        path.unlink()
    with pytest.raises(SceneError, match="there is no such photograph in"):
        read_scene(tmp_path)


def test_photographs_of_the_same_name_in_several_folders(tmp_path, views):
    """Paths from another computer differ in their folders; a name alone does not identify a photograph."""
    write_metashape(tmp_path, views)
    images, path = tmp_path / "images", tmp_path / "cameras.xml"
    labels = ["a_00", "a_01", "a_02", "a_03", "a_04"]
    text = path.read_text()
    for number, label in enumerate(labels):
        place = f"flight {number // 2}/DJI_{number % 2}.JPG"
        (images / "copied" / place).parent.mkdir(parents=True, exist_ok=True)
        (images / f"{label}.jpg").rename(images / "copied" / place)
        text = text.replace(f'label="{label}"', f'label="D:\\survey\\{place}"'.replace("/", "\\"))
    path.write_text(text)
    scene = read_scene(tmp_path)
    assert [view.name for view in scene.views] == [f"copied/flight {n // 2}/DJI_{n % 2}.JPG" for n in range(5)]
    for view, other in zip(scene.views, views, strict=True):
        np.testing.assert_allclose(view.center, other.center, atol=1e-6)
    path.write_text(text.replace("flight 0\\", "").replace("flight 1\\", ""))
    skipped = read_scene(tmp_path).skipped
    assert len(skipped) == 4
    assert "have this name: copied/flight 0/DJI_0.JPG, copied/flight 1/DJI_0.JPG" in skipped[0]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("35.0,", "35,0,", "more values than there are columns: export numbers with decimal points"),
        (",0.0\n", "\n", "fewer values than there are columns: it is truncated"),
        ("k1,k2", "k1,k1", "two columns for k1"),
        ("heading", "yaw,heading", "two columns for heading"),
    ],
)
def test_realityscan_with_rows_of_another_width_or_repeated_columns(tmp_path, old, new, reason):
    write_realityscan(
        tmp_path, [dataclasses.replace(view, fx=40 * 35 / 36, fy=40 * 35 / 36) for view in ring_of_views(5)]
    )
    path = tmp_path / "registration.csv"
    text = path.read_text()
    path.write_text(text.replace(old, new))
    with pytest.raises(SceneError, match=reason):
        read_scene(tmp_path)
    path.write_text(text.replace("\n", ",\n"))  # a comma at the end of each row
    assert len(read_scene(tmp_path).views) == 5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text + "1 2 3\n", "point 3 is damaged or truncated"),
        (lambda text: text.rstrip().rpartition("\n")[0], "point 2 is damaged or truncated"),
        (lambda text: text.replace("6 2", "6 1"), r"the 1 points it declares|it has 2"),
    ],
    ids=["more", "less", "count"],
)
def test_bundler_with_other_points_than_it_declares(tmp_path, views, change, reason):
    write_bundler(tmp_path, views, POINTS[:2], np.zeros((2, 3), int))
    path = tmp_path / "bundle.out"
    path.write_text(change(path.read_text()))
    with pytest.raises(SceneError, match=reason):
        read_scene(tmp_path)


def test_bundler_with_a_longer_list_of_names(tmp_path, views):
    """Names would belong to the cameras of their neighbours."""
    write_bundler(tmp_path, views, POINTS, np.zeros((len(POINTS), 3), int))
    (tmp_path / "list.txt").write_text("images/first.jpg\n" + (tmp_path / "list.txt").read_text())
    with pytest.raises(SceneError, match="lists 7 photographs, .* has 6 cameras"):
        read_scene(tmp_path)


def test_bundler_beside_a_list_of_something_else(tmp_path, views):
    write_bundler(tmp_path, views, POINTS, np.zeros((len(POINTS), 3), int))
    (tmp_path / "list.txt").rename(tmp_path / "bundle_list.txt")
    (tmp_path / "list.txt").write_text("images/first.jpg\n")
    assert len(read_scene(tmp_path).views) == len(views)


@pytest.mark.parametrize("color", ["300 0 0", "-1 0 0", "nan 0 0"])
def test_bundler_with_colours_of_another_range(tmp_path, views, color):
    write_bundler(tmp_path, views, POINTS, np.zeros((len(POINTS), 3), int))
    path = tmp_path / "bundle.out"
    path.write_text(path.read_text().replace("0 0 0\n2 0 0", f"{color}\n2 0 0", 1))
    with pytest.raises(SceneError, match="colours of points are not numbers from 0 to 255"):
        read_scene(tmp_path)


def test_realityscan_with_fewer_rows_than_it_declares(tmp_path, views):
    write_realityscan(tmp_path, views)
    assert "declares" not in read_scene(tmp_path).found
    path = tmp_path / "registration.csv"
    path.write_text(path.read_text().rstrip().rpartition("\n")[0])
    scene = read_scene(tmp_path)
    assert len(scene.views) == 4
    assert "registration.csv, which declares '5' cameras and has 4" in scene.found


def test_the_last_number_of_a_pose_divides_the_others(tmp_path, views):
    write_scanner_app(tmp_path, views)
    path = tmp_path / "frame_00002.json"
    content = json.loads(path.read_text())
    content["cameraPoseARFrame"] = [2 * number for number in content["cameraPoseARFrame"]]
    path.write_text(json.dumps(content))
    scene = read_scene(tmp_path)
    np.testing.assert_allclose(scene.views[2].w2c, views[2].w2c, atol=1e-9)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_realityscan_as_spreadsheets_save_it(tmp_path, views, encoding, separator):
    """It would not be recognised, and poses would be estimated again."""
    write_realityscan(tmp_path, views)
    expected = read_scene(tmp_path).views
    path = tmp_path / "registration.csv"
    text = path.read_text().replace(",", separator)
    path.write_text(text, encoding)
    for view, other in zip(read_scene(tmp_path).views, expected, strict=True):
        np.testing.assert_array_equal(view.w2c, other.w2c)
    path.write_text(text.replace(".", ",").replace(",jpg", ".jpg"), encoding)
    with pytest.raises(SceneError, match="not a finite decimal number: export numbers with decimal points"):
        read_scene(tmp_path)

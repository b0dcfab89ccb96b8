"""COLMAP models: round trips, and damaged files, which are refused by name."""

import dataclasses
import struct
from contextlib import nullcontext

import numpy as np
import pytest

from splat_cli.errors import SceneError
from splat_cli.scene import read_scene
from splat_cli.scene.colmap import MODEL_FOLDERS, find_model, read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.scene.colmap.model import CAMERA_MODELS, Camera, Image, Model
from tests.scene.models import PINHOLE, small_model, write_scene, write_with_observations


def assert_same(one, other):
    assert one.cameras == other.cameras
    assert one.images == other.images
    np.testing.assert_array_equal(one.points, other.points)
    np.testing.assert_array_equal(one.colors, other.colors)


@pytest.mark.parametrize("binary", [True, False])
def test_round_trip(tmp_path, binary):
    cameras = [
        Camera(number + 1, name, 400 + number, 300, tuple(np.linspace(0.1, 9, count).tolist()))
        for number, (name, count) in CAMERA_MODELS.items()
    ]
    model = small_model(("a.png", "sub/b c.png", "é.png"), cameras)
    write_model(tmp_path, model, binary)
    assert_same(read_model(tmp_path), model)


@pytest.mark.parametrize("binary", [True, False])
def test_empty_model(tmp_path, binary):
    write_model(tmp_path, Model({}, []), binary)
    assert_same(read_model(tmp_path), Model({}, []))


@pytest.mark.parametrize("binary", [True, False])
def test_two_cameras_with_one_id(tmp_path, binary):
    """Equal ones do no harm."""
    for width in (40, 41):
        other = dataclasses.replace(PINHOLE, width=width)
        write_model(tmp_path, Model({1: PINHOLE, 2: other}, []), binary)
        with nullcontext() if width == 40 else pytest.raises(SceneError, match="two cameras have the id 1"):
            assert read_model(tmp_path).cameras == {1: PINHOLE}


@pytest.mark.parametrize("binary", [True, False])
def test_name_that_is_not_utf8(tmp_path, binary):
    name = b"caf\xe9.png".decode("utf-8", "surrogateescape")
    model = Model({1: PINHOLE}, [Image(1, 1, name, (1, 0, 0, 0), (0, 0, 0))])
    write_model(tmp_path, model, binary)
    assert read_model(tmp_path).images[0].name == name


def test_observations_and_tracks_are_skipped(tmp_path):
    model = small_model()
    write_model(tmp_path, model)
    write_with_observations(tmp_path, model)
    for name in ("rigs.bin", "frames.bin", "project.ini"):
        (tmp_path / name).write_bytes(b"anything")
    assert_same(read_model(tmp_path), model)


def test_text_with_comments_observations_and_tracks(tmp_path):
    (tmp_path / "cameras.txt").write_text("# a comment\n\n7 SIMPLE_PINHOLE 40 30 35 20 15\n")
    (tmp_path / "images.txt").write_text(
        "# a\n# b\n3 1 0 0 0 1 2 3 7 my photo.jpg\n1.5 2.5 -1 3 4 9\n4 1 0 0 0 1 2 3 7 x.jpg\n\n"
    )
    (tmp_path / "points3D.txt").write_text("# a\n9 1 2 3 255 0 7 0.5 3 0 4 1\n10 -1e-3 2 nan 1 2 3 0.1\n")
    model = read_model(tmp_path)
    assert model.cameras == {7: Camera(7, "SIMPLE_PINHOLE", 40, 30, (35, 20, 15))}
    assert [image.name for image in model.images] == ["my photo.jpg", "x.jpg"]
    np.testing.assert_array_equal(model.points, [[1, 2, 3], [-1e-3, 2, np.nan]])
    np.testing.assert_array_equal(model.colors, [[255, 0, 7], [1, 2, 3]])


@pytest.mark.parametrize("binary", [True, False])
def test_errors_and_track_lengths_of_points(tmp_path, binary):
    """Errors in pixels, as in the file; one track entry per photograph."""
    write_model(tmp_path, small_model(), binary)
    if binary:
        points = [(1, 0.25, 2), (2, 1.5, 0), (3, 40.0, 3)]
        packed = [
            struct.pack("<Q3d3BdQ", number, 1, 2, 3, 4, 5, 6, error, length) + bytes(8 * length)
            for number, error, length in points
        ]
        (tmp_path / "points3D.bin").write_bytes(struct.pack("<Q", 3) + b"".join(packed))
    else:
        (tmp_path / "points3D.txt").write_text(
            "1 1 2 3 4 5 6 0.25 1 0 2 0\n2 1 2 3 4 5 6 1.5\n3 1 2 3 4 5 6 40 1 1 2 1 3 0\n"
        )
    model = read_model(tmp_path)
    np.testing.assert_array_equal(model.errors, [0.25, 1.5, 40])
    np.testing.assert_array_equal(model.track_lengths, [2, 0, 3])


@pytest.mark.parametrize("place", MODEL_FOLDERS)
def test_places_of_a_model(tmp_path, place):
    write_model(tmp_path / place, small_model(), binary=False)
    assert find_model(tmp_path).samefile(tmp_path / place)


def test_binary_comes_before_text(tmp_path):
    write_model(tmp_path, small_model(("text.png",)), binary=False)
    write_model(tmp_path, small_model(("binary.png",)), binary=True)
    assert read_model(tmp_path).images[0].name == "binary.png"


def test_models_that_are_not_read_are_named(tmp_path):
    write_scene(tmp_path, small_model())
    write_model(tmp_path / "sparse/0", small_model(), binary=False)
    write_model(tmp_path / "colmap/sparse/0", small_model())
    others = f"the model in {tmp_path}/colmap/sparse/0, the text files in {tmp_path}/sparse/0"
    assert read_scene(tmp_path).found == f"the COLMAP model in {tmp_path}/sparse/0 (not read: {others})"


def test_no_model(tmp_path):
    with pytest.raises(SceneError, match="has no COLMAP model"):
        find_model(tmp_path)


def test_incomplete_model(tmp_path):
    write_model(tmp_path, small_model())
    (tmp_path / "points3D.bin").unlink()
    with pytest.raises(SceneError, match=r"only cameras\.bin, images\.bin"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cameras", "1 PINHOLE 40 30 35 36 20"),
        ("cameras", "1 PINHOLE 40"),
        ("cameras", "1 PINHOLE 0 30 35 36 20 15"),
        ("cameras", "1 PINHOLE 40 30 35 nan 20 15"),
        ("cameras", "1 MYSTERY 40 0 35"),
        ("cameras", f"{'1' * 300} PINHOLE 40 30 35 36 20 15"),
        ("cameras", f"1 PINHOLE {'1' * 300} 30 35 36 20 15"),
        ("images", f"1 1 0 0 0 1 2 3 {'1' * 300} a.png"),
        ("images", "1 1 0 0 0 1 2 3 1"),
        ("images", "1 1 0 0 zero 1 2 3 1 a.png"),
        ("points3D", "1 2 3"),
        ("points3D", "1 2 3 4 red 0 0 1"),
    ],
)
def test_bad_line_of_text(tmp_path, file, text):
    write_model(tmp_path, small_model(), binary=False)
    (tmp_path / f"{file}.txt").write_text(f"{text}\n")
    with pytest.raises(SceneError, match=f"{file}.txt") as caught:
        read_model(tmp_path)
    assert "\n" not in str(caught.value)
    assert "111" not in str(caught.value)


def test_text_with_commas_and_a_byte_order_mark(tmp_path):
    """COLMAP reads this, too; names may contain commas."""
    (tmp_path / "cameras.txt").write_text("# a comment\n7 SIMPLE_PINHOLE 40 30 35 20 15\n", encoding="utf-8-sig")
    (tmp_path / "images.txt").write_text("1, 1, 0, 0, 0, 0.5, -1e-3, 2, 7, left/a, b.png\n\n")
    (tmp_path / "points3D.txt").write_text("")
    (image,) = read_model(tmp_path).images
    assert (image.id, image.camera_id, image.name) == (1, 7, "left/a, b.png")
    assert (image.quat, image.translation) == ((1, 0, 0, 0), (0.5, -1e-3, 2))


def test_text_without_lines_of_2d_points(tmp_path):
    """Some programs leave these lines out. Every second image must not be taken for such a line."""
    (tmp_path / "cameras.txt").write_text("7 SIMPLE_PINHOLE 40 30 35 20 15\n")
    lines = [f"{number} 1 0 0 0 0.5 0 2 7 frame {number}.png" for number in range(1, 6)]
    (tmp_path / "images.txt").write_text("\n".join([lines[0], "1.5 2.5 -1", *lines[1:3], "", *lines[3:]]))
    (tmp_path / "points3D.txt").write_text("")
    assert [image.id for image in read_model(tmp_path).images] == [1, 2, 3, 4, 5]

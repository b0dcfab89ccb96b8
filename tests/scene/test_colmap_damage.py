"""Damaged model files end in a SceneError that names the file, never in another exception or a large allocation."""

import contextlib
import struct

import numpy as np
import pytest

from splat_cli.errors import SceneError
from splat_cli.scene import dataset
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from tests.scene.models import small_model, write_with_observations

FILES = ("cameras", "images", "points3D")


@pytest.fixture
def model_folder(tmp_path):
    write_model(tmp_path, small_model())
    write_with_observations(tmp_path, small_model())
    return tmp_path


@pytest.mark.parametrize("eighths", range(8))
@pytest.mark.parametrize("stem", FILES)
def test_truncated(model_folder, stem, eighths):
    path = model_folder / f"{stem}.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * eighths // 8])
    with pytest.raises(SceneError, match=f"{stem}.bin.*truncated"):
        read_model(model_folder)


@pytest.mark.parametrize("cut", [1, 7, 9, 25])
@pytest.mark.parametrize("stem", FILES)
def test_last_bytes_missing(model_folder, stem, cut):
    path = model_folder / f"{stem}.bin"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(SceneError, match="truncated"):
        read_model(model_folder)


@pytest.mark.parametrize("count", [6, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("stem", FILES)
def test_count_larger_than_the_file(model_folder, stem, count):
    path = model_folder / f"{stem}.bin"
    path.write_bytes(struct.pack("<Q", count) + path.read_bytes()[8:])
    with pytest.raises(SceneError, match=f"{stem}.bin"):
        read_model(model_folder)


@pytest.mark.parametrize("stem", ["images", "points3D"])
def test_count_smaller_than_the_file(model_folder, stem):
    """Photographs or points would be missing without a word."""
    path = model_folder / f"{stem}.bin"
    (count,) = struct.unpack("<Q", path.read_bytes()[:8])
    path.write_bytes(struct.pack("<Q", count - 1) + path.read_bytes()[8:])
    with pytest.raises(SceneError, match=rf"{stem}\.bin declares {count - 1} .* bytes follow the last one"):
        read_model(model_folder)


@pytest.mark.parametrize("length", [5, 1 << 40, 1 << 62, (1 << 64) - 1])
def test_track_longer_than_the_file(model_folder, length):
    path = model_folder / "points3D.bin"
    content = bytearray(path.read_bytes())
    struct.pack_into("<Q", content, 8 + 43, length)
    path.write_bytes(content)
    with pytest.raises(SceneError, match=r"points3D\.bin"):
        read_model(model_folder)


@pytest.mark.parametrize("num_params", [0, 25])
def test_unknown_camera_model_that_does_not_end_with_the_file(model_folder, num_params):
    camera = struct.pack(f"<QIiQQ{num_params}d", 1, 1, 99, 40, 30, *[1.0] * num_params)
    (model_folder / "cameras.bin").write_bytes(camera)
    with pytest.raises(SceneError, match="cameras of the unknown model number 99"):
        read_model(model_folder)


@pytest.mark.parametrize("suffix", ["bin", "txt"])
@pytest.mark.parametrize("stem", FILES)
def test_random_damage(tmp_path, stem, suffix):
    write_model(tmp_path, small_model(), binary=suffix == "bin")
    if suffix == "bin":
        write_with_observations(tmp_path, small_model())
    path = tmp_path / f"{stem}.{suffix}"
    whole = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(1)
    for _ in range(150):
        damaged = whole.copy()
        places = rng.integers(len(whole), size=rng.integers(1, 4))
        damaged[places] ^= (1 << rng.integers(8, size=len(places))).astype(np.uint8)
        kept = rng.integers(1, len(whole)) if rng.random() < 0.3 else len(whole)
        path.write_bytes(damaged[:kept].tobytes())
        with contextlib.suppress(SceneError):
            [image.w2c() for image in read_model(tmp_path).images]


@pytest.mark.parametrize("binary", [True, False])
def test_more_images_than_a_scene_may_have(tmp_path, monkeypatch, binary):
    write_model(tmp_path, small_model(), binary)
    monkeypatch.setattr(dataset, "MAX_PHOTOGRAPHS", 2)
    with pytest.raises(SceneError, match=r"images\.(bin|txt) lists more than 2 images"):
        read_model(tmp_path)


def test_a_point_with_a_track_of_megabytes(tmp_path):
    write_model(tmp_path, small_model(), binary=False)
    with (tmp_path / "points3D.txt").open("a") as file:
        file.write("7 0 0 0 1 2 3 0.5" + " 10" * (1 << 20) + "\n")
    with pytest.raises(SceneError, match="expected POINT3D_ID"):
        read_model(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("stem", FILES)
def test_text_in_utf16_is_named(tmp_path, stem, encoding):
    """Windows PowerShell writes redirected output this way."""
    for name in FILES:
        text = "# COLMAP\n"
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / f"{stem}.txt").write_bytes(f"\ufeff{text}".encode(encoding))
    with pytest.raises(SceneError, match=f"{stem}.txt is in UTF-16, but expected in UTF-8"):
        read_model(tmp_path)

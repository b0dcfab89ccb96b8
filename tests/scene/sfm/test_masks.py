"""Masks for structure from motion: found by name, written as COLMAP and training read them."""

import numpy as np
import pytest
from PIL import Image

from splat_cli.errors import UsageError
from splat_cli.scene import read_scene
from splat_cli.scene.colmap.binary import _images
from splat_cli.scene.sfm import SfmOptions, job_record
from splat_cli.scene.sfm.photographs import collect_masks, collect_photographs, find_masks

NAMES = ["a.jpg", "b.jpg", "deep/c.jpg"]


@pytest.fixture
def photos(tmp_path):
    """Three photographs of 8x6; two with masks, whose left half is black."""
    for name in NAMES:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6)).save(path)
    mask = np.full((6, 8), 255, np.uint8)
    mask[:, :4] = 0
    (tmp_path / "photos/masks/deep").mkdir(parents=True)
    for name in ("a.jpg.png", "deep/c.png"):
        Image.fromarray(mask).save(tmp_path / "photos/masks" / name)
    return tmp_path / "photos"


def test_masks_are_found(photos, tmp_path, monkeypatch):
    assert find_masks([photos], None) == photos / "masks"
    assert find_masks([photos / "deep"], None) is None
    assert find_masks([tmp_path, photos], "masks") == photos / "masks"
    assert find_masks([photos], "none") is None
    monkeypatch.chdir(photos)
    assert str(find_masks([tmp_path], "masks")) == "masks"
    with pytest.raises(UsageError, match="no folder nowhere; name the folder of the masks"):
        find_masks([photos], "nowhere")
    for path in (photos / "masks").rglob("*.png"):
        path.unlink()
    assert find_masks([photos], None) is None, "perhaps photographs of masks"


@pytest.mark.parametrize("inverted", [False, True])
def test_masks_are_written_and_not_taken_for_photographs(photos, tmp_path, inverted):
    scene = tmp_path / "scene"
    names, skipped = collect_photographs(photos, scene / "images", photos / "masks")
    assert (names, skipped) == (NAMES, [])
    assert collect_masks(photos / "masks", inverted, scene, names) == 2
    written = sorted(path.relative_to(scene / "masks").as_posix() for path in scene.rglob("*.png"))
    assert written == ["a.jpg.png", "deep/c.jpg.png"]
    mask = np.asarray(Image.open(scene / "masks/deep/c.jpg.png"))
    assert mask.shape == (6, 8)
    assert (mask[:, :4] == 255 * inverted).all()
    assert (mask[:, 4:] == 255 * (not inverted)).all()


def test_masks_that_cannot_be_used(photos, tmp_path):
    collect_photographs(photos, tmp_path / "images", photos / "masks")
    (photos / "masks/a.jpg.png").write_bytes(b"no")
    with pytest.raises(UsageError, match="a.jpg: its mask a.jpg.png .*; correct it, or give --masks none"):
        collect_masks(photos / "masks", False, tmp_path, NAMES)
    with pytest.raises(UsageError, match="no mask for any of the 1 photographs: .* such as b.jpg.png"):
        collect_masks(photos / "masks", False, tmp_path, ["b.jpg"])


def test_changed_masks_make_another_scene(photos):
    without = job_record(photos / "deep", SfmOptions())
    assert without.keys() == {"files", "num_frames", "matcher", "camera_model", "one_camera", "seed"}
    options = SfmOptions(masks=photos / "masks")
    before = job_record(photos, options)
    (photos / "masks/b.png").write_bytes(b"another")
    assert job_record(photos, options) != before
    assert job_record(photos, SfmOptions(masks=photos / "masks", invert_masks=True)) != job_record(photos, options)


@pytest.mark.slow
def test_features_under_masks_are_not_used(sample, splat, tmp_path):
    pytest.importorskip("pycolmap")
    (tmp_path / "photos/masks").mkdir(parents=True)
    mask = np.full((240, 320), 255, np.uint8)
    mask[:, :160] = 0
    for view in sample:
        Image.open(view.path).save(tmp_path / "photos" / view.name, quality=95)
    Image.fromarray(mask).save(tmp_path / "photos/masks" / f"{sample[0].name}.png")
    result = splat("sfm", tmp_path / "photos", "-o", tmp_path / "scene")
    assert (result.code, "Masks: 1 of 12 photographs" in result.err) == (0, True), result.err
    scene = read_scene(tmp_path / "scene")
    assert sum(view.mask is not None for view in scene.views) == 1
    assert len({view.fx for view in scene.views}) == 1, "photographs of one size share a camera"
    seen = observed_x(tmp_path / "scene/sparse/0/images.bin")
    assert min(seen.pop(sample[0].name)) >= 160
    assert min(map(min, seen.values())) < 100


def observed_x(path):
    """Name of an image -> x of its 2D points, in pixels."""
    return {image.name: np.frombuffer(points, "<f8")[::3] for image, points in _images(path)}

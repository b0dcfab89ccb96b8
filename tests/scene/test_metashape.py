"""Exports of Metashape: pixels of points by its own formulas."""

import re

import numpy as np
import pytest

from splat_cli.errors import SceneError
from splat_cli.scene import read_scene
from splat_cli.scene.poses import Similarity
from tests.scene.export_files import (
    BROWN,
    metashape_pixels,
    write_metashape,
)
from tests.scene.export_pixels import POINTS, assert_same_pixels, pixels
from tests.views import ring_of_views


@pytest.fixture
def views():
    return ring_of_views(5)


@pytest.mark.parametrize("kind", ["frame", "fisheye", "equidistant_fisheye"])
def test_metashape(tmp_path, views, kind):
    values = write_metashape(tmp_path, views, kind)
    scene = read_scene(tmp_path)
    assert_same_pixels(scene, [metashape_pixels(view, POINTS, values, kind != "frame") for view in views])
    assert "Metashape's cameras in" in scene.found
    assert scene.skipped == []


def test_metashape_of_undistorted_photographs(tmp_path, views):
    flat = dict.fromkeys((*BROWN, "p1", "p2", "b2"), 0.0)
    write_metashape(tmp_path, views, calibration=flat)
    scene = read_scene(tmp_path)
    assert all(view.lens is None for view in scene.views)
    assert_same_pixels(scene, [pixels(view) for view in views])


def test_geographic_coordinates_are_moved_to_the_origin(tmp_path, views):
    far = np.array([4_000_000.0, 900_000.0, 4_700_000.0])
    write_metashape(tmp_path, [Similarity(1.0, np.eye(3), far).apply(view) for view in views])
    scene = read_scene(tmp_path)
    centers = np.array([view.center for view in scene.views])
    offsets = centers - np.array([view.center for view in views])
    np.testing.assert_allclose(offsets, np.broadcast_to(offsets[0], offsets.shape), atol=1e-6)
    assert np.abs(centers).max() < 10
    assert "moved by" in scene.found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace('type="frame"', 'type="spherical"'), "of type 'spherical'"),
        (lambda text: text.replace("<f>", "<f>-"), "focal length -"),
        (lambda text: text.replace("<p1>", "<p3>1e-3</p3><p1>"), "lens has `p3`, which"),
        (lambda text: text.replace('sensor_id="0"', 'sensor_id="7"'), "sensor is not in the file"),
    ],
)
def test_metashape_cameras_that_cannot_be_used(tmp_path, views, change, reason):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    path.write_text(change(path.read_text()))
    with pytest.raises(SceneError, match=reason):
        read_scene(tmp_path)


def test_metashape_numbers_beyond_floats(tmp_path, views):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    path.write_text(path.read_text().replace("<scale>2.5</scale>", "<scale>9e299</scale>").replace("0.3", "99"))
    with pytest.raises(SceneError, match="its pose is not finite"):
        read_scene(tmp_path)


UTF_16 = [("utf-16", "UTF-16"), ("utf-16-le", "utf-16"), ("utf-16-be", "utf-16")]


@pytest.mark.parametrize(("encoding", "declared"), [*UTF_16, ("utf-8-sig", "UTF-8"), ("cp1251", "windows-1251")])
def test_encodings(tmp_path, views, encoding, declared):
    """Files of 16-bit characters were taken for other files, and poses would have been estimated anew."""
    write_metashape(tmp_path / "plain", views)
    write_metashape(tmp_path / "other", views)
    path = tmp_path / "other" / "cameras.xml"
    text = path.read_text().replace("UTF-8", declared)
    path.write_bytes(text.encode(encoding))
    expected, found = (read_scene(tmp_path / name) for name in ("plain", "other"))
    for view, other in zip(found.views, expected.views, strict=True):
        np.testing.assert_array_equal(view.w2c, other.w2c)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_xml_with_entities_in_16_bits_is_refused(tmp_path, views, encoding):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    text = path.read_text().replace("?>", "?><!DOCTYPE document [<!ENTITY a '1'>]>", 1).replace("UTF-8", "UTF-16")
    path.write_bytes(text.encode(encoding))
    with pytest.raises(SceneError, match="declares a document type"):
        read_scene(tmp_path)


def test_xml_with_entities_is_refused(tmp_path, views):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    path.write_text(path.read_text().replace("<document", '<!DOCTYPE a [<!ENTITY b "c">]><document', 1))
    with pytest.raises(SceneError, match="declares a document type"):
        read_scene(tmp_path)


def test_metashape_without_aligned_cameras(tmp_path, views):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    assert "without 1 that are not aligned or disabled" in read_scene(tmp_path).found
    path.write_text(path.read_text().replace("<camera ", '<camera enabled="false" '))
    with pytest.raises(SceneError, match="has 6 cameras, and none is aligned and enabled"):
        read_scene(tmp_path)


def test_metashape_cameras_of_a_multi_camera_system(tmp_path, views):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    path.write_text(path.read_text().replace('<camera id="99"', '<camera id="99" master_id="0"'))
    scene = read_scene(tmp_path)
    assert len(scene.views) == 5
    assert "has no pose except that of its master" in scene.skipped[0]


def test_metashape_components_without_common_coordinates(tmp_path, views):
    """In a chunk without georeference, components have no transform and their own coordinates."""
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    text = re.sub("<component id.*</component>", '<component id="0"/><component id="1"/>', path.read_text(), flags=re.S)
    text = text.replace('<components next_id="1">', '<components next_id="2" active_id="0">')
    path.write_text(text.replace('id="4" sensor_id="0" component_id="0"', 'id="4" sensor_id="0" component_id="1"'))
    scene = read_scene(tmp_path)
    assert len(scene.views) == 4
    assert "in another component than the active one" in scene.skipped[0]


def test_metashape_chunks_without_common_coordinates(tmp_path, views):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    text = re.sub("<component id.*</component>", '<component id="0"/>', path.read_text(), flags=re.S)
    chunk = text[text.index("<chunk") : text.index("</document>")]
    other = chunk.replace('label="a_0', 'label="b_0')
    assert len(read_scene(_written(path, text)).views) == 5
    with pytest.raises(SceneError, match="has 2 chunks, each with its own coordinates: align and merge"):
        read_scene(_written(path, text.replace(chunk, chunk + other)))
    unaligned = re.sub("<transform>.*?</transform></camera>", "</camera>", other)
    assert len(read_scene(_written(path, text.replace(chunk, chunk + unaligned))).views) == 5
    disabled = other.replace('enabled="true"', 'enabled="false"')
    assert len(read_scene(_written(path, text.replace(chunk, chunk + disabled))).views) == 5
    (tmp_path / "later.xml").write_text(text)
    assert read_scene(tmp_path).found.endswith(" that are not aligned or disabled (not read: later.xml)")


def _written(path, text):
    path.write_text(text)
    return path.parent


def test_a_label_of_two_photographs_is_not_guessed(tmp_path, views):
    write_metashape(tmp_path, views)
    (tmp_path / "images" / "a_01.png").write_bytes((tmp_path / "images" / "a_01.jpg").read_bytes())
    scene = read_scene(tmp_path)
    assert scene.skipped == ["a_01: several photographs have this name: a_01.jpg, a_01.png; keep one of them"]


def test_labels_that_differ_in_case_from_files_are_found(tmp_path, views):
    write_metashape(tmp_path, views)
    for path in [*(tmp_path / "images").iterdir()]:
        path.rename(path.with_name(path.name.upper()))
    assert len(read_scene(tmp_path).views) == len(views)


@pytest.mark.parametrize(
    ("one", "two", "reason"),
    [
        ("<f>36.0</f>", "<f>36.0</f><f>99.0</f>", "two elements <f>"),
        ("<scale>2.5</scale>", "<scale>2.5</scale><scale>1</scale>", "a transform is not"),
        ("<scale>2.5</scale>", "<scale>2.5 1 1</scale>", "a transform is not"),
        ('<calibration type="frame" class="initial">', '<calibration type="frame" class="adjusted">', "two adjusted"),
        ('<sensor id="0"', '<sensor id="0" type="frame"></sensor><sensor id="0"', "two sensors with one id"),
    ],
)
def test_one_of_two_values_is_not_chosen(tmp_path, views, one, two, reason):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    path.write_text(path.read_text().replace(one, two))
    with pytest.raises(SceneError, match=reason):
        read_scene(tmp_path)


def test_a_camera_with_two_poses_is_left_out(tmp_path, views):
    write_metashape(tmp_path, views)
    path = tmp_path / "cameras.xml"
    path.write_text(
        path.read_text().replace("<transform>", "<transform>1 0 0 0 0 1 0 0 0 0 1 0</transform><transform>", 2)
    )
    assert "two elements <transform>" in read_scene(tmp_path).skipped[0]

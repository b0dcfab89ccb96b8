"""Held-out views, and the extent of a scene."""

from pathlib import Path

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.errors import FormatError, SceneError
from splat_cli.scene import scene_extent, split
from splat_cli.scene.split import Split, read_split, sector_names, split_scene, write_split
from splat_cli.scene.view import Scene
from tests.peak_memory import assert_little_memory
from tests.views import ring_of_views


def test_every_eighth_view_by_name_is_held_out():
    views = ring_of_views(17)
    train, test = split(views[::-1], 8)
    assert [view.name for view in test] == ["a_00.jpg", "a_08.jpg", "a_16.jpg"]
    assert [view.name for view in train] == [view.name for i, view in enumerate(views) if i % 8]


@pytest.mark.parametrize("test_every", [0, -1])
def test_nothing_is_held_out(test_every):
    train, test = split(ring_of_views(5), test_every)
    assert len(train) == 5
    assert test == []


def test_named_views_are_held_out(tmp_path):
    views = ring_of_views(5)
    train, test = split(views, 8, {"a_01.jpg", "a_04.jpg", "unknown.jpg"})
    assert [view.name for view in test] == ["a_01.jpg", "a_04.jpg"]
    assert len(train) == 3
    write_split(tmp_path / "split.json", Split(train, test))
    assert read_split(tmp_path / "split.json") == {"a_01.jpg", "a_04.jpg"}


def test_names_one_per_line(tmp_path):
    (tmp_path / "split.txt").write_text("# held out\na.jpg\n\n  sub/b c.jpg \n")
    assert read_split(tmp_path / "split.txt") == {"a.jpg", "sub/b c.jpg"}


def test_photographs_in_no_list_of_a_split_are_not_trained_on(tmp_path):
    """As `val` of other programs, which are held out, too; runs that began with such a file can be resumed."""
    scene, path = Scene(tmp_path, ring_of_views(4), np.zeros((0, 3)), np.zeros((0, 3))), tmp_path / "split.json"
    config = TrainConfig(eval=True, split=str(path))
    path.write_text('{"train": ["a_00.jpg", "a_01.jpg"], "test": ["a_02.jpg"]}')
    with pytest.raises(SceneError, match=r"lists a_03\.jpg neither in `train` nor in `test`"):
        split_scene(scene, config)
    assert [len(part) for part in split_scene(scene, config, is_new=False)[:2]] == [3, 1]
    path.write_text('{"train": ["a_00.jpg", "a_01.jpg", "a_02.jpg", "a_03.jpg"], "test": ["a_02.jpg"]}')
    with pytest.raises(SceneError, match=r"lists a_02\.jpg in `train` and in `test`"):
        split_scene(scene, config)
    path.write_text('{"test": ["a_02.jpg"]}')
    assert [len(part) for part in split_scene(scene, config)[:2]] == [3, 1]
    path.write_text('{"val": 1, "test": ["a_02.jpg"]}')
    with pytest.raises(FormatError, match=r"has the lists val, test; expected `test` and perhaps `train`"):
        split_scene(scene, config)
    assert [len(part) for part in split_scene(scene, config, is_new=False)[:2]] == [3, 1]


@pytest.mark.parametrize("text", ["a_01.jpg\na_02.jpg\n", '{"train": [], "test": ["a_01.jpg", "a_02.jpg"]}'])
def test_byte_order_mark_is_not_part_of_a_name(tmp_path, text):
    """Editors on Windows write one."""
    path = tmp_path / "split"
    path.write_text(text, encoding="utf-8-sig")
    assert read_split(path) == {"a_01.jpg", "a_02.jpg"}


@pytest.mark.parametrize("text", ["", "\n\n", "{", "{}", '{"test": 3}', '{"test": [3]}', '{"test": []}', "{" * 9999])
def test_file_that_names_nothing(tmp_path, text):
    (tmp_path / "split.txt").write_text(text)
    with pytest.raises(FormatError, match=r"split\.txt"):
        read_split(tmp_path / "split.txt")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device")
def test_a_device_without_end_is_not_read():
    def refused():
        with pytest.raises(FormatError, match="a pipe, a socket or a device"):
            read_split(Path("/dev/zero"))

    assert_little_memory(refused, 1 << 20)


def test_extent_of_a_ring():
    assert scene_extent(ring_of_views(12, radius=3.0)) == pytest.approx(3.3)


def test_extent_of_one_place():
    view = ring_of_views(1)[0]
    assert scene_extent([view]) == scene_extent([view, view]) == 1.0
    assert np.isfinite(scene_extent([]))


@pytest.mark.parametrize(
    ("num", "held_out", "num_sectors"), [(2, 1, 1), (20, 3, 1), (33, 5, 1), (64, 8, 2), (96, 12, 3), (160, 20, 3)]
)
def test_sectors_are_runs_of_neighbouring_cameras_far_from_each_other(num, held_out, num_sectors):
    views = ring_of_views(num)
    numbers = sorted(i for i, view in enumerate(views) if view.name in sector_names(views, 8))
    assert len(numbers) == held_out == len(split(views, 8)[1])
    gaps = sorted(np.diff([*numbers, numbers[0] + num]))
    assert gaps[:-num_sectors] == [1] * (held_out - num_sectors)
    assert gaps[-num_sectors] > num / 5


@pytest.mark.parametrize(("turn", "nearest"), [(0.7, 2), (0.9, 1)])
@pytest.mark.parametrize("scale", [1, 1000])
def test_a_radian_is_as_far_as_half_the_largest_distance(turn, nearest, scale):
    """Cameras at 0, 4 and 10 units on a line, and a turned one at the first one's place."""
    views = ring_of_views(4)
    for view, (x, angle) in zip(views, [(0, 0), (4, 0), (0, turn), (10, 0)], strict=True):
        c, s = np.cos(angle), np.sin(angle)
        view.w2c[:3, :3] = [[c, 0, -s], [0, 1, 0], [s, 0, c]]
        view.w2c[:3, 3] = -view.w2c[:3, :3] @ (x * scale, 0, 0)
    assert sector_names(views, 2) == {views[0].name, views[nearest].name}

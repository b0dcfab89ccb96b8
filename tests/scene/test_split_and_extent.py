"""Held-out views, and the extent of a scene."""

from pathlib import Path

import numpy as np
import pytest

from splat_cli.errors import FormatError
from splat_cli.scene import scene_extent, split
from splat_cli.scene.split import read_split, sector_names, write_split
from tests.peak_memory import peak_memory
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
    write_split(tmp_path / "split.json", train, test)
    assert read_split(tmp_path / "split.json") == {"a_01.jpg", "a_04.jpg"}


def test_names_one_per_line(tmp_path):
    (tmp_path / "split.txt").write_text("# held out\na.jpg\n\n  sub/b c.jpg \n")
    assert read_split(tmp_path / "split.txt") == {"a.jpg", "sub/b c.jpg"}


@pytest.mark.parametrize("text", ["a_01.jpg\na_02.jpg\n", '{"train": [], "test": ["a_01.jpg", "a_02.jpg"]}'])
def test_byte_order_mark_is_no_part_of_a_name(tmp_path, text):
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
    with peak_memory() as memory, pytest.raises(FormatError, match="a pipe, a socket or a device"):
        read_split(Path("/dev/zero"))
    assert memory.bytes < 1 << 20


def test_extent_of_a_ring():
    assert scene_extent(ring_of_views(12, radius=3.0)) == pytest.approx(3.3)


def test_extent_of_one_place():
    view = ring_of_views(1)[0]
    assert scene_extent([view]) == scene_extent([view, view]) == 1.0
    assert np.isfinite(scene_extent([]))


def test_a_sector_is_a_run_of_neighbouring_cameras():
    views = ring_of_views(96)
    numbers = sorted(i for i, view in enumerate(views) if view.name in sector_names(views, 8))
    assert len(numbers) == 12
    gaps = np.diff([*numbers, numbers[0] + 96])
    assert sorted(gaps)[:9] == [1] * 9  # three groups of four
    assert min(sorted(gaps)[9:]) > 20  # far from each other


@pytest.mark.parametrize(("num", "held_out"), [(2, 1), (20, 3), (33, 5)])
def test_few_photographs_make_one_sector(num, held_out):
    views = ring_of_views(num)
    names = sector_names(views, 8)
    assert len(names) == held_out == len(split(views, 8)[1])

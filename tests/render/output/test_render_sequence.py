"""Files of rendered frames: contents, and files that a later call keeps."""

import dataclasses

import numpy as np
import pytest
from PIL import Image

from splat_cli.errors import UsageError
from splat_cli.gaussians.splats import Splats
from splat_cli.render.output.frame_files import FrameFiles
from splat_cli.render.output.render_sequence import RenderSettings, render_sequence
from splat_cli.render.rendered_maps import render_maps
from splat_cli.render.view import ViewRenderer
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views

ALL = frozenset({"alpha", "depth", "normal"})


@pytest.fixture(scope="module")
def splats(backend):
    return Splats.from_arrays(backend, some_splats(200, 1))


@pytest.fixture
def write(backend, splats, tmp_path):
    """`write(views, settings)` renders into a folder and returns (SequenceResult, modification times by file name)."""

    def call(views, settings, source="these splats", **options):
        written = render_sequence(backend, splats, views, tmp_path / "out", settings, source, **options)
        files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
        return written, {str(path.relative_to(tmp_path / "out")): path.stat().st_mtime_ns for path in files}

    return call


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.mark.parametrize("depth_format", ["png", "tiff"])
def test_files_hold_the_frame(backend, splats, write, tmp_path, depth_format):
    view = ring_of_views(1)[0]
    settings = RenderSettings(files=FrameFiles(ALL, transparent=True, depth_levels=2000, depth_format=depth_format))
    _, names = write([view], settings)
    assert set(names) == {"a_00.png", "alpha/a_00.png", f"depth/a_00.{depth_format}", "normal/a_00.png"}
    frame = render_maps(ViewRenderer(backend, splats, [view]), 0, maps=ALL)
    out, seen = tmp_path / "out", frame.alpha > 0.05
    np.testing.assert_allclose(pixels(out / "alpha/a_00.png") / 255, frame.alpha, atol=0.51 / 255)
    depth = pixels(out / f"depth/a_00.{depth_format}")
    assert depth.dtype == (np.uint16 if depth_format == "png" else np.float32)
    scale = 2000 if depth_format == "png" else 1
    np.testing.assert_allclose(depth / scale, frame.depth, atol=0.51 / 2000)
    normal = pixels(out / "normal/a_00.png") / 127.5 - 1
    np.testing.assert_allclose(normal[seen], frame.normal[seen] * [1, -1, -1], atol=0.51 / 127)
    picture = pixels(out / "a_00.png") / 255
    np.testing.assert_allclose(picture[..., 3], frame.alpha, atol=0.51 / 255)
    over_nothing = picture[seen, :3] * picture[seen, 3:]
    np.testing.assert_allclose(over_nothing, np.minimum(frame.color[seen], frame.alpha[seen, None]), atol=0.012)


def test_second_call_keeps_files_and_renders_missing_ones(write, tmp_path):
    views, settings = ring_of_views(4), RenderSettings(files=FrameFiles(ALL))
    _, first = write(views, settings)
    written, second = write(views, settings)
    assert (written.num_kept, second) == (4, first)
    (tmp_path / "out" / "depth" / "a_02.png").unlink()
    (tmp_path / "out" / "a_01.png").write_bytes(b"half")
    written, third = write(views, settings)
    assert (len(written.pictures), written.num_kept) == (4, 2)
    assert {name for name in third if third[name] == first[name]} == {
        name for name in first if "a_00" in name or "a_03" in name
    }


def test_changed_frames_are_rendered_again(write):
    views, settings = ring_of_views(2), RenderSettings(files=FrameFiles(frozenset({"depth"})))
    write(views, settings)
    moved = [dataclasses.replace(view, cx=view.cx + 1) for view in views]
    for change in (
        {"settings": dataclasses.replace(settings, background=(1.0, 1.0, 1.0))},
        {"settings": dataclasses.replace(settings, antialias=True)},
        {"settings": dataclasses.replace(settings, samples=2)},
        {"settings": dataclasses.replace(settings, novel_views=True)},
        {"settings": RenderSettings(files=FrameFiles(frozenset({"depth"}), depth_levels=10))},
        {"settings": RenderSettings(files=FrameFiles(transparent=True))},
        {"views": moved},
        {"source": "others"},
        {"source": None},
    ):
        arguments = {"views": views, "settings": settings} | change
        assert write(**arguments)[0].num_kept == 0
        write(views, settings)
    assert write(views, settings)[0].num_kept == 2
    assert write(views, RenderSettings())[0].num_kept == 2  # the color image is the same


def test_frames_of_other_numbers_have_other_appearances(write):
    """Along a transition; the same view, first and last."""
    views, options = ring_of_views(2), {"settings": RenderSettings(), "colorings": lambda numbers: None}
    write(views, **options)
    assert write(views, **options)[0].num_kept == 2
    assert write(views[::-1], **options)[0].num_kept == 0


def test_foreign_files_are_never_overwritten(write, tmp_path):
    photograph = tmp_path / "out" / "a_01.png"
    photograph.parent.mkdir()
    Image.new("RGB", (4, 3)).save(photograph)
    before = photograph.read_bytes()
    with pytest.raises(UsageError, match="a_01.png was not written by splat and would be overwritten"):
        write(ring_of_views(2), RenderSettings())
    assert [*photograph.parent.iterdir()] == [photograph]
    assert photograph.read_bytes() == before


def test_depths_beyond_the_range_are_counted(write):
    views = ring_of_views(3)
    assert write(views, RenderSettings(files=FrameFiles(frozenset({"depth"}), depth_levels=1e5)))[0].num_cut == 3
    assert write(views, RenderSettings(files=FrameFiles(frozenset({"depth"}), depth_levels=1e3)))[0].num_cut == 0

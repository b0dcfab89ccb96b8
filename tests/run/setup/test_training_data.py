"""Photographs of a run; each rank reads its share."""

import dataclasses
import io
import json
import shutil
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image
from PIL.ExifTags import IFD, Base
from PIL.PngImagePlugin import PngInfo

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.errors import FormatError, SceneError
from splat_cli.run.setup.training_data import load_data, load_part
from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.images.image_set import load_images
from splat_cli.scene.read import read_scene
from splat_cli.terminal.console import Display
from tests.scene.transforms_files import write_transforms
from tests.views import ring_of_views


@pytest.fixture
def views(scene):
    return read_scene(scene).views


def _load(views, own, lazily=False):
    return load_part(views, own, load_config(None), open_backend("cpu"), Display(io.StringIO()), lazily)


def test_a_part_leaves_the_other_photographs_unread(views):
    views = [dataclasses.replace(view, path=view.path if index in (1, 4) else None) for index, view in enumerate(views)]
    part = _load(views, [1, 4])
    assert len(part.views) == len(part.images) == len(part.masks) == len(views)
    assert [index for index, image in enumerate(part.images) if image.size] == [1, 4]
    for index, image in zip((1, 4), load_images([views[1], views[4]]).images, strict=True):
        np.testing.assert_array_equal(part.images[index], image)
        np.testing.assert_array_equal(_load(views, [1, 4], lazily=True).images[index], image)


def test_photograph_that_is_gone_is_named(views, tmp_path):
    views[2] = dataclasses.replace(views[2], path=tmp_path / "gone.jpg")
    with pytest.raises(SceneError, match=f"can no longer be read: {views[2].name}: "):
        _load(views, [1, 2])


def test_only_new_runs_refuse_lists_of_other_names_in_a_split(scene, views, tmp_path):
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"test": [views[0].name], "val": []}))
    config = dataclasses.replace(load_config(None), eval=True, split=str(path))
    arguments = read_scene(scene), config, open_backend("cpu"), Display(io.StringIO())
    assert [view.name for view in load_data(*arguments, is_new=False).split.test] == [views[0].name]
    with pytest.raises(FormatError, match="has the lists test, val"):
        load_data(*arguments)


@pytest.mark.parametrize("option", [{"test_every": 3}, {"split_by": "sector"}])
def test_rules_for_held_out_photographs_are_named_where_the_dataset_lists_them(tmp_path, option):
    views = ring_of_views(5)
    for names in ([f"images/{views[1].name}"], []):
        scene = read_scene(write_transforms(tmp_path, views, test_filenames=names))
        display = Display(io.StringIO())
        load_data(scene, load_config(None, {"eval": True, **option}), open_backend("cpu"), display)
        told = [line for line in display.warnings if "does nothing: the dataset names the photographs" in line]
        assert len(told) == len(names)


def test_turns_and_colours_without_a_profile_are_named(tmp_path):
    """COLMAP ignores turns, other programs may not."""
    views, turned, adobe, gamma = ring_of_views(5), Image.Exif(), Image.Exif(), PngInfo()
    turned[Base.Orientation] = 3
    adobe.get_ifd(IFD.Exif)[Base.ExifInteroperabilityOffset] = {1: "R03"}
    gamma.add(b"gAMA", (100_000).to_bytes(4, "big"))
    options = [{"exif": turned}, {"icc_profile": b"damaged"}, {}, {"exif": adobe}, {"format": "PNG", "pnginfo": gamma}]
    write_transforms(tmp_path, views)
    for view, option in zip(views, options, strict=True):
        path = tmp_path / "images" / view.name
        with Image.open(path) as picture:
            (picture.convert("CMYK") if not option else picture).save(path, **option)
    display, scene = Display(io.StringIO()), read_scene(tmp_path)
    load_data(scene, load_config(None), open_backend("cpu"), display)
    told = [line for line in display.warnings if " photographs have " in line or " photographs are " in line]
    assert [line.rpartition("(")[2] for line in told] == [f"images/a_0{number}.jpg)" for number in (0, 2, 3, 4)]
    for line, what in zip(told[1:], ("CMYK", "Adobe RGB", "another gamma"), strict=True):
        assert f"of 5 photographs have colours of {what}, which are taken as sRGB" in line
    with ZipFile(tmp_path / "model.zip", "w") as archive:  # poses of COLMAP
        archive.writestr("sparse/0/cameras.bin", b"")
    num = len(display.warnings)
    load_data(scene, load_config(None), open_backend("cpu"), display, is_new=True)
    assert not any(" photographs are turned" in line for line in display.warnings[num:])
    for name in ("masks", "depths"):  # programs that make these may have turned the photograph
        (tmp_path / name / "images").mkdir(parents=True)
        Image.new("I;16", (scene.views[0].width, scene.views[0].height), 65_534).save(
            tmp_path / name / f"{scene.views[0].name}.png"
        )
        num = len(display.warnings)
        load_data(read_scene(tmp_path, SceneOptions("transforms")), load_config(None), open_backend("cpu"), display)
        assert any(" photographs are turned" in line for line in display.warnings[num:])
        shutil.rmtree(tmp_path / name)

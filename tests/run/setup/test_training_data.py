"""Photographs of a run; each rank reads its share."""

import dataclasses
import io

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.errors import SceneError
from splat_cli.run.setup.training_data import load_part
from splat_cli.scene.images.image_set import load_images
from splat_cli.scene.read import read_scene
from splat_cli.terminal.console import Display


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

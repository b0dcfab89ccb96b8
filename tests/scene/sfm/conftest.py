"""Photographs of the sample scene, and their reconstruction, once for all tests."""

import io
import os
from contextlib import redirect_stdout

import numpy as np
import pytest
from PIL import Image

from splat_cli.cli.main import run
from splat_cli.sample import make_sample_scene
from splat_cli.scene import read_scene
from tests.scene.sfm.exif import METRES, gps_exif


@pytest.fixture(scope="session")
def sample(tmp_path_factory):
    """Twelve views of the sample scene, close to each other, with known cameras."""
    folder = tmp_path_factory.mktemp("sfm") / "sample"
    make_sample_scene(folder, num_views=48, width=320, height=240)
    return read_scene(folder).views[:12]


@pytest.fixture(scope="session")
def reconstruct(sample, tmp_path_factory):
    """`reconstruct(unit)`: (scene, printed text) of `splat sfm` on photographs with GPS data; a unit is `unit` metres.

    Up is -y in the sample scene: east, north, up are x, z, -y. COLMAP runs on one core: with threads, results
    vary from run to run and are sometimes mirrored.
    """
    pytest.importorskip("pycolmap")

    def reconstruct(unit):
        folder, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
        for view in sample:
            x, y, z = unit * view.center + rng.normal(0, 0.5, 3)
            (folder / "photos").mkdir(exist_ok=True)
            Image.open(view.path).save(folder / "photos" / view.name, quality=95, exif=gps_exif(x, z, -y))
        command = ["sfm", str(folder / "photos"), "-o", str(folder / "scene"), "--camera-model", "SIMPLE_PINHOLE"]
        printed, cores = io.StringIO(), os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            with redirect_stdout(printed):
                assert run(command) == 0
        finally:
            os.sched_setaffinity(0, cores)
        return folder / "scene", printed.getvalue()

    return reconstruct


@pytest.fixture(scope="session")
def outdoors(reconstruct):
    """The same for a scene of a hundred metres. Do not modify."""
    return reconstruct(METRES)

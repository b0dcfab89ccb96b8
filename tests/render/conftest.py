"""Scenes for the tests of all kernels of the rasterizer."""

import pytest

from tests.reference.project import Options
from tests.reference.random_scene import Scene, distorted, hard_scene


@pytest.fixture(scope="session", params=["scene1", "scene2", "distorted"])
def scene(request: pytest.FixtureRequest) -> Scene:
    if request.param == "distorted":
        return distorted(hard_scene(3))
    return hard_scene(int(request.param[-1]))


@pytest.fixture(scope="session", params=[False, True], ids=["plain", "antialias"])
def options(request: pytest.FixtureRequest) -> Options:
    return Options(antialias=request.param)

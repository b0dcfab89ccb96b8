"""Scenes that every kernel of the rasterizer is tried on."""

import pytest

from tests.compare import comparison  # noqa: F401
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene


@pytest.fixture(scope="session", params=[1, 2, 3], ids="scene{}".format)
def scene(request: pytest.FixtureRequest) -> Scene:
    return hard_scene(request.param)


@pytest.fixture(scope="session", params=[False, True], ids=["plain", "antialias"])
def options(request: pytest.FixtureRequest) -> Options:
    return Options(antialias=request.param)

"""A report of a short run."""

import pytest

from splat_cli.config.presets import load_config
from splat_cli.report import write_report
from splat_cli.run.device import open_device
from splat_cli.run.storage.find_run import new_locked_run
from splat_cli.run.train_scene import train_scene
from splat_cli.terminal.console import Display
from tests.small_scene import write_small_scene


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """The path of the page. Do not modify."""
    folder = tmp_path_factory.mktemp("reported")
    config = load_config(None, {"eval": True, "test_every": 3, "steps": 20, "save_at": (10,)})
    backend = open_device("cpu", config, Display())
    with new_locked_run(folder / "run") as run:
        train_scene(write_small_scene(folder / "scene"), run, config, backend, Display())
        return write_report(run, backend, Display())

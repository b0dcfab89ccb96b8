"""The warning before training that would take hours on a CPU."""

import dataclasses
import re

import pytest

from splat_cli.config import TrainConfig
from splat_cli.run import device
from splat_cli.run.device import duration_warning
from splat_cli.run.plan import resolve_plan
from tests.views import ring_of_views


def warning(width, height, num_cores, **settings):
    views = [dataclasses.replace(view, width=width, height=height) for view in ring_of_views(200)]
    config = resolve_plan(TrainConfig(**settings), views).config
    return duration_warning(config, views, config.steps, num_cores)


def test_a_small_scene_gets_no_warning():
    assert warning(192, 144, 2, steps=1500) is None


@pytest.mark.parametrize(("width", "height", "num_cores"), [(800, 533, 2), (1600, 1200, 8), (4000, 3000, 2)])
def test_advice_ends_in_minutes(width, height, num_cores):
    text = warning(width, height, num_cores)
    assert re.match(rf"training on the CPU \({num_cores} cores\) will take about \d+ hours?; ", text)
    advice = re.search(r"--downscale (\d) --steps (\d+) would take about (\d+) minutes", text)
    downscale, steps, minutes = map(int, advice.groups())
    assert minutes <= 20
    assert warning(width // downscale, height // downscale, num_cores, steps=steps) is None


def test_the_warning_comes_before_training(splat, scene, monkeypatch):
    monkeypatch.setattr(device, "SECONDS_PER_PIXEL", 100.0)
    shown = splat("train", scene, "--device", "cpu", "--steps", 2, "--no-report").err
    assert shown.index("Warning: training on the CPU") < shown.index("step 2/2")

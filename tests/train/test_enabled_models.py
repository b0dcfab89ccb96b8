"""Settings that enable joint models, and the arrays of these models in checkpoints."""

import numpy as np
import pytest

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import MemoryCost
from splat_cli.joint.background import LearnedBackground
from splat_cli.joint.joint_model import Decay
from splat_cli.render.camera import CameraTable
from splat_cli.train.joint_models import enabled_models, joint_memory
from tests.views import ring_of_views


@pytest.mark.parametrize(
    ("settings", "enabled"),
    [
        ({}, []),
        ({"appearance": "exposure"}, ["ExposureLoss"]),
        ({"appearance": "grid"}, ["BilateralGridLoss", "FreeSpaceLoss"]),
        ({"appearance": "grid", "free_space": 0.0}, ["BilateralGridLoss"]),
        ({"free_space": 0.1}, ["FreeSpaceLoss"]),
        ({"background": "learned"}, ["LearnedBackground"]),
        ({"pose_opt": True}, ["PoseRefinement"]),
        ({"pose_opt": True, "refine_intrinsics": True}, ["CameraRefinement"]),
    ],
)
def test_settings_enable_models(settings, enabled):
    config = TrainConfig(**settings)
    assert [model.__name__ for model in enabled_models(config)] == enabled


def test_other_models_take_no_memory():
    assert joint_memory(ResolvedConfig(), 3) == MemoryCost()
    assert joint_memory(ResolvedConfig(robust=True), 3) != MemoryCost()


def test_a_learned_background_is_kept_and_shown(backend):
    shown = backend.xp.zeros(3, "float32")
    learned = LearnedBackground(backend, CameraTable(backend, ring_of_views(2)), shown, Decay(1e-2, 1e-3, 100))
    learned.arrays()["background"][0, 0] = 1 / 3
    learned.refresh()
    np.testing.assert_allclose(backend.download(shown), 1 / 3, rtol=1e-6)
    assert learned.background_color() == (0.333333,) * 3

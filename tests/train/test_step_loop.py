"""What a halted step leaves behind: nothing that was recorded with arrays that have moved."""

import numpy as np

from splat_cli.device import open_backend
from splat_cli.presets import load_config
from splat_cli.train.probe import ViewProbe
from splat_cli.train.trainer import Trainer
from tests.train.conftest import SETTINGS
from tests.views import ring_of_views


def test_room_for_pairs_makes_density_control_record_anew_too(monkeypatch):
    """Recordings hold addresses: the probe's would write to where the pairs' buffers were."""
    forgotten, forget = [], ViewProbe.forget
    monkeypatch.setattr(ViewProbe, "forget", lambda probe: (forgotten.append(probe), forget(probe)))
    views, random = ring_of_views(4), np.random.default_rng(0)
    images = [random.integers(0, 255, (view.height, view.width, 3), dtype=np.uint8) for view in views]
    points = random.normal(0, 0.5, (200, 3)).astype(np.float32)
    config = load_config(None, {**SETTINGS, "densify_start": 50})
    trainer = Trainer(open_backend("cpu"), views, images, points, np.full((200, 3), 128, np.uint8), config)
    trainer.run_until(3)
    forgotten.clear()
    trainer.rasterizer.resize_pairs(16)
    trainer.loop.forget()
    trainer.run_until(6)
    assert trainer.step == 6
    assert forgotten == [trainer.probe]

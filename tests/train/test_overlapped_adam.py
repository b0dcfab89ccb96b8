"""Updates of unseen splats' colours beside the backward pass: the same bits as after it."""

import numpy as np
import pytest

from splat_cli.device import open_backend
from tests.noise_trainer import noise_trainer

SETTINGS = {"densify_start": 5, "densify_stop": 35, "densify_interval": 10, "dropout": 0.2, "sh_degree_interval": 5}


@pytest.mark.parametrize(
    "settings", [{}, {"moments": "bf16"}, {"optimizer": "visible"}, {"batch": 2}, {"pose_opt": True}], ids=str
)
def test_same_bits(settings):
    backend = open_backend("cpu", threads=1)  # sums in a fixed order
    ends = []
    for overlap in (False, True):
        trainer = noise_trainer(backend, 200, steps=40, score_views=3, **SETTINGS, **settings)
        trainer.batch_step.overlap_adam = overlap
        trainer.run_until(40)
        planes, num = trainer.model.planes(), trainer.model.num
        ends.append({name: backend.download(array)[:, :num] for name, array in planes.items()})
    for name, array in ends[0].items():
        np.testing.assert_array_equal(ends[1][name], array)


def test_fork_is_part_of_a_captured_graph(backend):
    counts = backend.xp.zeros(2, "int32")

    def launch():
        def add():
            counts[0] += 1

        join = backend.fork(add)
        counts[1] += 1
        join()
        counts[1] += counts[0]

    launch()
    replay = backend.capture_graph(launch)
    for _ in range(3):
        replay()
    assert backend.download(counts).tolist() == [4, 4 + (1 + 2 + 3 + 4)]

"""The model that grows and shrinks: what belongs to a splat stays with it."""

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.optim.model import GRAIN, Model
from tests.gaussians.some_splats import some_splats


@pytest.mark.parametrize("smooth", [False, True])
def test_planes_move_together(backend: Backend, smooth: bool) -> None:
    """Every plane is marked by the splat's number, which its first position holds too."""
    num, xp = 50, backend.xp
    model = Model(backend, some_splats(num), num, smooth=smooth)
    assert ("filters" in model.planes()) is smooth
    for array in model.planes().values():
        array[0, :num] = xp.arange(num, dtype="float32")
    prune_mask = xp.zeros(num, bool)
    prune_mask[xp.asarray([0, 7, 49])] = True
    model.remove(prune_mask)
    model.reserve(GRAIN + 1, 3 * GRAIN)
    model.sort_spatially()
    model.append(model.splats.params[:, :1] * 0)
    model.rebuild(model.num)
    marks = [backend.download(array)[0, : model.num] for array in model.planes().values()]
    assert sorted(marks[0][:-1]) == [k for k in range(num) if k not in (0, 7, 49)]
    for mark in marks[1:]:
        np.testing.assert_array_equal(mark, marks[0])
    assert {array.shape[1] for array in model.planes().values()} == {GRAIN}

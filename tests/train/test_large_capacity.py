"""Planes with room for a hundred million splats: indices beyond 32 bits, in reserved but unused memory."""

import math
import mmap
from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.config import SETTINGS
from splat_cli.device import launch, open_backend
from splat_cli.errors import UsageError
from splat_cli.gaussians.splats import MAX_SPLATS, Splats
from splat_cli.model.model import Model
from splat_cli.ranks.protocol import RANK_BLOCK, Share
from splat_cli.train import allocation
from tests.gaussians.some_splats import some_splats
from tests.noise_trainer import noise_trainer

CAPACITY = 100_003_840  # a multiple of RANK_BLOCK; 59 rows have 5.9e9 numbers
_MAP_NORESERVE = 0x4000  # Linux; Python names it from 3.12 on


class ReservedArrays:
    """NumPy whose large arrays take no memory until they are written to."""

    def __getattr__(self, name):
        return getattr(np, name)

    def zeros(self, shape, dtype="float64"):
        size = math.prod(np.atleast_1d(shape).tolist()) * np.dtype(dtype).itemsize
        if size < 1 << 20:
            return np.zeros(shape, dtype)
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # otherwise the first number of each row would take 2 MiB
        return np.frombuffer(memory, dtype).reshape(shape)

    empty = zeros


@pytest.fixture(scope="module")
def backend():
    backend = open_backend("cpu", threads=1)
    backend.xp = ReservedArrays()
    try:
        backend.xp.zeros((4 * 59, CAPACITY), "float32")
    except OSError:
        pytest.skip("this machine does not reserve more memory than it has")
    return backend


@pytest.mark.parametrize(
    "settings",
    [{"batch": 2, "sh_degree": 1}, {"strategy": "adc", "grad_threshold": 0.0, "visible_adam": True}],
    ids=["batch", "adc"],
)
def test_capacity_does_not_change_the_result(backend, monkeypatch, settings):
    given = {"steps": 4, "densify_start": 1, "densify_interval": 2, "score_views": 2, "splat_budget": 0.0} | settings

    def trained(capacity):
        def model(backend, arrays, num, **options):
            return Model(backend, arrays, capacity or num, **options)

        monkeypatch.setattr(allocation, "Model", model)
        trainer = noise_trainer(backend, 200, **given)
        trainer.run_until(4)
        return {name: plane[:, : trainer.model.num].copy() for name, plane in trainer.model.planes().items()}

    large, small = trained(CAPACITY), trained(None)
    assert small["params"].shape[1] > 200
    for name, plane in small.items():
        np.testing.assert_array_equal(large[name], plane, err_msg=name)


def test_shares_of_wide_planes(backend):
    """The last of many ranks owns the last splats; its share is one block."""
    num_ranks = CAPACITY // RANK_BLOCK
    last = Share(num_ranks - 1, num_ranks)
    planes, part = (backend.xp.zeros((59, columns), "float32") for columns in (CAPACITY, RANK_BLOCK))
    planes[:, -3:] = np.arange(59 * 3).reshape(59, 3)
    assert (last.columns(CAPACITY), last.count(CAPACITY)) == (RANK_BLOCK, RANK_BLOCK)
    arrays = None, planes[None], 1, CAPACITY, RANK_BLOCK, part
    launch(backend, "density/shares", "take_share", RANK_BLOCK, last.struct, CAPACITY, *arrays, rows=59)
    np.testing.assert_array_equal(part[:, -4:], planes[:, -4:])


def test_sums_of_integer_weights_stay_within_64_bits(backend):
    num, some = MAX_SPLATS["cuda"], 256
    weights, largest = np.full(some, 0.3, np.float32), np.float32([0.3]).view(np.uint32)
    shares = np.zeros(some, np.int64)
    backend.kernel("density/sampling", "integer_weights")((1,), (some,), weights, largest, num, shares)
    assert 2**61 < int(shares[-1]) * num < 2**63


def test_splats_beyond_kernel_indices_are_refused(backend):
    for name, most in MAX_SPLATS.items():
        device = SimpleNamespace(name=name, xp=ReservedArrays())
        with pytest.raises(UsageError, match=f"{most + 1:,} splats are more than the {most:,} that kernels can index"):
            Splats.from_arrays(device, some_splats(0), most + 1)
    assert SETTINGS["max_splats"].high == max(MAX_SPLATS.values())
    model = Model(backend, some_splats(1), MAX_SPLATS["cpu"])
    with pytest.raises(UsageError, match="are more than"):
        model.reserve(MAX_SPLATS["cpu"] + 1, MAX_SPLATS["cuda"])

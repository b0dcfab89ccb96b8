"""Memory of a GPU that lies partly in host memory: calls of the driver, with a fake driver and on a GPU."""

import ctypes
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from splat_cli.device import split_memory
from splat_cli.device.split_memory import SplitMemory, can_map_host_memory
from splat_cli.errors import DeviceError

GRAIN = SplitMemory.GRAIN
START = 1 << 40


class Driver:
    """Records calls. fails: name of a function, number of the call that fails, and its error code."""

    def __init__(self, fails=("", 0, 0)):
        self.fails, self.calls, self.mapped, self.handles, self.reserved = fails, [], {}, {}, 0

    def __getitem__(self, name):
        def call(*args):
            self.calls.append(name)
            if (name, self.calls.count(name)) == self.fails[:2]:
                return self.fails[2]
            return getattr(self, name)(*(arg.value if hasattr(arg, "value") else arg for arg in args)) or 0

        return call

    def cuMemAddressReserve(self, address, size, *_):
        ctypes.cast(address, ctypes.POINTER(ctypes.c_ulonglong))[0] = START
        self.reserved += size

    def cuMemCreate(self, handle, size, wanted, _):
        location = wanted._obj.location
        handle._obj.value = len(self.handles) + 1
        self.handles[handle._obj.value] = size, location.type, location.id

    def cuMemMap(self, address, size, _, handle, __):
        assert self.handles[handle][0] == size
        self.mapped[address] = self.handles[handle]

    def cuMemRelease(self, handle):
        assert handle in self.handles

    def cuMemSetAccess(self, address, size, access, count):
        assert self.mapped[address][0] == size
        assert (access._obj.location.type, access._obj.flags, count) == (1, 3, 1)  # the device reads and writes

    def cuMemUnmap(self, address, size):
        assert self.mapped.pop(address)[0] == size

    def cuMemAddressFree(self, address, size):
        assert not self.mapped
        assert address == START
        self.reserved -= size


def _cupy(node):
    runtime = SimpleNamespace(deviceGetAttribute=lambda attribute, device: node)
    return SimpleNamespace(cuda=SimpleNamespace(Device=lambda: SimpleNamespace(id=2), runtime=runtime))


@pytest.fixture
def split(monkeypatch):
    def make(driver, size, on_device, node=1):
        monkeypatch.setattr(split_memory, "driver", lambda: driver)
        return SplitMemory(_cupy(node), size, on_device)

    return make


def test_first_part_is_on_the_device_and_the_rest_on_its_host_node(split):
    driver = Driver()
    memory = split(driver, 5 * GRAIN - 1, GRAIN + 1)
    assert driver.mapped == {START: (2 * GRAIN, 1, 2), START + 2 * GRAIN: (3 * GRAIN, 3, 1)}
    assert (memory.address.value, memory.size, memory.on_device) == (START, 5 * GRAIN, 2 * GRAIN)
    memory.free()
    assert driver.reserved == 0


def test_all_memory_on_the_host_of_a_machine_without_numa_nodes(split):
    driver = Driver()
    split(driver, GRAIN, 0, node=-1)
    assert driver.mapped == {START: (GRAIN, 3, 0)}


@pytest.mark.parametrize(
    ("fails", "error"),
    [
        (("cuMemCreate", 2, 2), MemoryError),
        (("cuMemCreate", 2, 1), DeviceError),
        (("cuMemMap", 1, 2), MemoryError),
        (("cuMemSetAccess", 2, 800), DeviceError),
    ],
)
def test_after_an_error_nothing_stays_reserved(split, fails, error):
    driver = Driver(fails)
    with pytest.raises(error, match=r"--offload off" if error is DeviceError else "no memory"):
        split(driver, 2 * GRAIN, GRAIN)
    assert driver.reserved == 0
    assert not driver.mapped


def test_drivers_that_cannot_map_host_memory(monkeypatch):
    def can_map(driver):
        monkeypatch.setattr(split_memory, "driver", lambda: driver)
        return can_map_host_memory(_cupy(0))

    able = Driver()
    assert can_map(able)
    assert able.reserved == 0
    assert not can_map(Driver(("cuMemCreate", 1, 1)))
    old = Driver()
    old.cuMemAddressReserve = Mock(side_effect=AttributeError("undefined symbol"))
    assert not can_map(old)


def test_rows_on_the_host_are_ordinary_memory_to_kernels(backend):
    planes = backend.planes(5, 1 << 20, 2)
    assert not backend.download(planes).any()
    values = np.random.default_rng(0).normal(size=planes.shape).astype(np.float32)
    planes[...] = backend.upload(values)
    np.testing.assert_array_equal(backend.download(planes), values)
    assert backend.planes(5, 64, 5).shape == (5, 64)


@pytest.mark.gpu
def test_memory_without_arrays_is_freed(open_device):
    backend = open_device("cuda")
    planes = backend.planes(64, 1 << 20, 32)
    before, peak = backend.memory()[0], backend.peak_bytes
    del planes
    backend.release_cached()
    assert backend.memory()[0] >= before + (100 << 20)
    backend.planes(64, 1 << 20, 32)
    assert backend.peak_bytes == peak

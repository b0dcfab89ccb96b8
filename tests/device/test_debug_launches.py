"""With --debug, a kernel that fails on a GPU is named; here without one, on functions that stand for a module's."""

import numpy as np
import pytest

from splat_cli.cli.main import run
from splat_cli.device.cuda import CudaBackend, CudaKernel
from splat_cli.device.signature import Parameter
from splat_cli.errors import DeviceError

PARAMETERS = (
    Parameter("means2d", "float2*", True, np.dtype("float32")),
    Parameter("filters", "float*", True, np.dtype("float32")),
    Parameter("capacity", "int", False, np.dtype("int32")),
)
ARGUMENTS = (np.zeros((7, 2), np.float32), None, 7)


def launched(log):
    return lambda grid, block, args: log.append((grid, block))


def illegal_access():
    raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")


def test_every_launch_is_waited_for():
    log = []
    kernel = CudaKernel("project", PARAMETERS, launched(log), np.ndarray, lambda: log.append("waited"))
    kernel((3,), (32, 4), *ARGUMENTS)
    kernel((4,), (32, 4), *ARGUMENTS)
    assert log == [((3, 1, 1), (32, 4, 1)), "waited", ((4, 1, 1), (32, 4, 1)), "waited"]


def test_the_kernel_that_failed_is_named_with_its_launch():
    kernel = CudaKernel("project", PARAMETERS, launched([]), np.ndarray, illegal_access)
    with pytest.raises(DeviceError) as caught:
        kernel((3,), (32, 4), *ARGUMENTS)
    assert str(caught.value) == (
        "kernel project on grid (3, 1, 1), block (32, 4, 1) with means2d float32 [7, 2], filters null, capacity 7 "
        "failed: cudaErrorIllegalAddress: an illegal memory access was encountered"
    )


def test_a_launch_that_is_refused_is_named():
    def refuse(grid, block, args):
        raise RuntimeError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")

    kernel = CudaKernel("project", PARAMETERS, refuse, np.ndarray, lambda: None)
    with pytest.raises(DeviceError, match=r"kernel project on grid \(3, 1, 1\).*OUT_OF_RESOURCES"):
        kernel((3,), (32, 4), *ARGUMENTS)


def test_without_debug_nobody_waits():
    log = []
    CudaKernel("project", PARAMETERS, launched(log), np.ndarray)((3,), (32,), *ARGUMENTS)
    assert log == [((3, 1, 1), (32, 1, 1))]


def test_nothing_is_recorded_with_debug(monkeypatch):
    """A wait within a recording would end it."""
    monkeypatch.setattr(CudaBackend, "debug", True)
    backend, calls = CudaBackend.__new__(CudaBackend), []
    assert backend.capture_graph(lambda: calls.append(1)) is not None
    backend.capture_graph(lambda: calls.append(1))()
    assert calls == [1]


@pytest.mark.parametrize(("arguments", "debug"), [(["--debug", "info", "missing"], True), (["info", "missing"], False)])
def test_the_option_sets_it(monkeypatch, capsys, arguments, debug):
    monkeypatch.setattr(CudaBackend, "debug", False)
    assert run(arguments) == 2
    assert CudaBackend.debug == debug

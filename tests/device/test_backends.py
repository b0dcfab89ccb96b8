"""Backends: choice of a device, memory, copies, timers, captured launches, threads, forks."""

import functools
import gc
import re
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.device.cuda import CudaBackend, why_no_cuda
from splat_cli.errors import DeviceError, UsageError
from tests.subprocesses import finished


def test_unknown_device():
    with pytest.raises(UsageError, match="unknown device 'tpu': expected auto, cuda or cpu"):
        open_backend("tpu")


def test_without_a_gpu():
    if not why_no_cuda():
        pytest.skip("there is a GPU")
    with pytest.raises(DeviceError, match="no CUDA device: CuPy .*; or use --device cpu"):
        open_backend("cuda")
    assert open_backend("auto").name == "cpu"


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match="CuPy is not installed .pip install"):
        open_backend("cuda")
    assert open_backend("auto").name == "cpu"


def test_describe(backend):
    text = backend.describe()
    assert "\n" not in text
    assert text.startswith("CPU, ") if backend.name == "cpu" else "CUDA" in text


def test_threads():
    with pytest.raises(UsageError, match="threads must be at least 1, got 0"):
        open_backend("cpu", threads=0)
    assert open_backend("cpu", threads=1).describe().startswith("CPU, 1 thread, ")
    assert open_backend("cpu", threads=3).describe().startswith("CPU, 3 threads, ")


def test_copies(backend):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    there = backend.upload(array.T)
    assert there.flags.c_contiguous
    there += 1
    back = backend.download(there)
    np.testing.assert_array_equal(back, array.T + 1)
    back += 1
    np.testing.assert_array_equal(backend.download(there), array.T + 1)
    assert isinstance(backend.address(there), int)


def test_memory(backend):
    free, total = backend.memory()
    assert 0 < free <= total
    array = backend.xp.ones(1 << 20, np.float32)
    assert backend.peak_bytes >= array.nbytes


def test_timer(small_kernels):
    x = small_kernels.upload(np.zeros(128, np.int32))
    with small_kernels.timer() as timer:
        small_kernels.kernel("plain", "reverse")((1,), (128,), x, 1)
    small_kernels.synchronize()
    assert timer.ms > 0


def test_capture(small_kernels):
    backend, x = small_kernels, small_kernels.upload(np.arange(128, dtype=np.int32))
    y = backend.upload(np.zeros(3))

    def reverse():
        backend.fill(y, 1)
        backend.kernel("plain", "reverse")((1,), (128,), x, 1)

    reverse()
    replay = backend.capture_graph(reverse)
    before = backend.download(x)
    y[...] = 0
    for _ in range(3):
        replay()
    np.testing.assert_array_equal(backend.download(x), before[::-1])
    np.testing.assert_array_equal(backend.download(y), 1)


@pytest.mark.parametrize("captured", [False, True])
def test_branch(small_kernels, captured):
    """Work after the join sees the results of the branch, and the branch sees those of earlier work."""
    backend, x, y = small_kernels, *(small_kernels.upload(np.arange(128, dtype=np.int32)) for _ in range(2))
    reverse = backend.kernel("plain", "reverse")

    def launch():
        reverse((1,), (128,), x, 1)
        join = backend.branch(lambda: reverse((1,), (128,), x, 1))
        reverse((1,), (128,), y, 1)
        join()
        reverse((1,), (128,), x, 1)

    launch()
    if captured:
        for _ in range(2):
            backend.capture_graph(launch)()
    for array in (x, y):
        np.testing.assert_array_equal(backend.download(array), np.arange(128)[::-1])


def test_capture_after_another_backend_was_opened(small_kernels):
    open_backend(small_kernels.name)
    test_capture(small_kernels)


def test_capture_keeps_no_array_alive():
    """Memory of released buffers is free before the next capture, as on a GPU."""
    backend = open_backend("cpu", sources=Path(__file__).parent / "kernels")
    x = backend.upload(np.arange(128, dtype=np.int32))
    alive = weakref.ref(x)
    replay = backend.capture_graph(functools.partial(backend.kernel("plain", "reverse"), (1,), (128,), x, 1))
    replay()
    del x
    gc.collect()
    assert alive() is None


def test_capture_records_one_thread_only():
    """Launches of other threads run during a capture."""
    backend, ran = open_backend("cpu"), np.zeros(1)

    def record():
        thread = threading.Thread(target=backend.fill, args=(ran, 1))
        thread.start()
        thread.join()

    backend.capture_graph(record)
    assert ran[0] == 1


def test_capture_of_a_failure(small_kernels):
    def fail():
        raise RuntimeError("on the way")

    with pytest.raises(RuntimeError, match="on the way"):
        small_kernels.capture_graph(fail)()
    small_kernels.synchronize()
    test_capture(small_kernels)


def test_results_do_not_depend_on_threads():
    """OS threads share the blocks of a launch, and each block runs once."""
    from tests.device.test_lanes import KERNELS

    for threads in (1, 2, 5):
        backend = open_backend("cpu", threads=threads, sources=KERNELS)
        out = np.zeros((3000, 32, 2), np.int32)
        backend.kernel("plain", "indices")((3000,), (32,), out)
        np.testing.assert_array_equal(out[:, 0, 0], np.arange(3000))


FORK = """
import os, numpy as np
from pathlib import Path
from splat_cli.device import open_backend
backend = open_backend("cpu", threads=2, sources=Path({kernels!r}))
x = np.arange(128 * 300, dtype=np.int32)
def run():
    backend.kernel("plain", "reverse")((300,), (128,), x, 1)
run()
child = os.fork()
run()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_can_launch():
    from tests.device.test_lanes import KERNELS

    code = FORK.format(kernels=str(KERNELS))
    ended = finished([sys.executable, "-W", "ignore", "-c", code])
    assert ended.returncode == 0, ended.stderr


LIMITED = """
import resource, sys
import numpy as np
import psutil
from pathlib import Path
from splat_cli.device import open_backend
from splat_cli.errors import MemoryLimit
backend = open_backend("cpu", threads=64, sources=Path({kernels!r}))
kernel = backend.kernel("plain", "reverse")
x = np.tile(np.arange(128, dtype=np.int32), (300, 1))
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
def limit(mebibytes):
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + (mebibytes << 20), hard))
limit(4)
try:
    kernel((300,), (128,), x, 1)
    sys.exit("launched")
except MemoryLimit as error:
    print(error)
limit(40)
kernel((300,), (128,), x, 1)
assert (x == np.arange(127, -1, -1)).all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v works on Linux")
def test_memory_limit_reduces_threads_or_is_reported():
    """`ulimit -v` sets the limit. A thread needs 8 MiB for the stacks of 128 fibers, in addition to its own stack."""
    from tests.device.test_lanes import KERNELS

    ended = finished([sys.executable, "-W", "ignore", "-c", LIMITED.format(kernels=str(KERNELS))])
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"its address space is limited to [\d,]+ MiB; raise the limit, e.g. ulimit -v", ended.stdout)


class StreamOfCuPy:
    """The methods of CuPy's stream that the CUDA backend calls when it opens."""

    current = None

    def __init__(self, non_blocking, priority=0):
        assert non_blocking

    def __enter__(self):
        StreamOfCuPy.current = self


def test_backends_of_a_thread_share_a_stream(monkeypatch):
    """A graph that the first backend captures is launched on the current stream."""
    device = SimpleNamespace(id=0)
    cuda = SimpleNamespace(Stream=StreamOfCuPy, Device=lambda: device)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr("splat_cli.device.cuda._of_thread", threading.local())
    first, second, others = CudaBackend(), CudaBackend(), []
    assert first.stream is second.stream is StreamOfCuPy.current
    thread = threading.Thread(target=lambda: others.append(CudaBackend()))
    thread.start()
    thread.join()
    assert others[0].stream is not first.stream
    device.id = 1
    assert CudaBackend().stream is not first.stream
    device.id = 0
    assert CudaBackend().stream is first.stream is StreamOfCuPy.current

"""With --debug, errors name the kernel that failed on a GPU. Most tests use fake launch functions instead of a GPU."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from splat_cli.cli.main import run
from splat_cli.device.arguments import Parameter, describe
from splat_cli.device.cpu import CpuBackend
from splat_cli.device.cuda import CudaBackend, CudaKernel
from splat_cli.errors import DeviceError, KernelError
from splat_cli.io.files import resource_dir

PARAMETERS = (
    Parameter("means2d", "float2*", True, np.dtype("float32")),
    Parameter("sigmas", "float*", True, np.dtype("float32")),
    Parameter("capacity", "int", False, np.dtype("int32")),
)
ARGUMENTS = (np.zeros((7, 2), np.float32), None, 7)


def launched(log):
    return lambda grid, block, args: log.append((grid, block))


def illegal_access():
    raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")


def test_debug_waits_before_and_after_every_launch():
    log = []
    kernel = CudaKernel("project", PARAMETERS, launched(log), np.ndarray, lambda: log.append("waited"))
    kernel((3,), (32, 4), *ARGUMENTS)
    kernel((4,), (32, 4), *ARGUMENTS)
    assert log == ["waited", ((3, 1, 1), (32, 4, 1)), "waited", "waited", ((4, 1, 1), (32, 4, 1)), "waited"]


class StickyDevice:
    """A device that fails after the first launch, like a GPU after an illegal access."""

    def __init__(self):
        self.failed = False

    def launch(self, *args):
        self.failed = True

    def wait(self):
        if self.failed:
            illegal_access()


def test_error_names_the_kernel_and_its_launch():
    device = StickyDevice()
    kernel = CudaKernel("project", PARAMETERS, device.launch, np.ndarray, device.wait)
    with pytest.raises(DeviceError) as caught:
        kernel((3,), (32, 4), *ARGUMENTS)
    assert str(caught.value) == (
        "kernel project on grid (3, 1, 1), block (32, 4, 1) with means2d float32 [7, 2], sigmas null, capacity 7 "
        "failed: cudaErrorIllegalAddress: an illegal memory access was encountered"
    )


def test_a_later_kernel_is_not_blamed():
    """CUDA reports an illegal access again in every later call."""
    device = StickyDevice()
    with pytest.raises(KernelError, match="kernel project on grid"):
        CudaKernel("project", PARAMETERS, device.launch, np.ndarray, device.wait)((3,), (32,), *ARGUMENTS)
    with pytest.raises(KernelError, match="^work of the device before kernel blend failed: cudaErrorIllegalAddress"):
        CudaKernel("blend", PARAMETERS, device.launch, np.ndarray, device.wait)((3,), (32,), *ARGUMENTS)


def test_describing_an_argument_does_not_read_the_device():
    class OnDevice:
        shape, dtype = (), np.dtype("float32")

        def __str__(self):
            illegal_access()

    assert describe(OnDevice()) == "float32 []"
    assert describe(np.float32(0.5)) == "0.5"
    assert describe(np.zeros((2, 0))) == "float64 [2, 0]"


def test_message_survives_later_failures(monkeypatch, scene, tmp_path, capsys):
    """Training on a device that fails in the first blend and in every later call."""
    real, device = CpuBackend.kernel, StickyDevice()
    monkeypatch.setattr(CudaBackend, "debug", True)

    def kernel(self, file, name, **defines):
        device.wait()
        if name == "blend":
            return CudaKernel(name, real(self, file, name)._parameters, device.launch, np.ndarray, device.wait)
        return real(self, file, name, **defines)

    def failing(method):
        def call(self, *args):
            device.wait()
            return method(self, *args)

        return call

    monkeypatch.setattr(CpuBackend, "kernel", kernel)
    for name in ("upload", "download", "synchronize", "memory", "release_cached"):
        monkeypatch.setattr(CpuBackend, name, failing(getattr(CpuBackend, name)))
    options = ["--device", "cpu", "--steps", "3", "-o", str(tmp_path / "run")]
    assert run(["train", str(scene), *options]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("Error: kernel blend on grid (")
    assert last.endswith("failed: cudaErrorIllegalAddress: an illegal memory access was encountered")


def test_cleanup_error_does_not_hide_the_kernel(monkeypatch, capsys):
    def fail(*arguments):
        try:
            raise KernelError("kernel blend failed")
        finally:
            illegal_access()

    monkeypatch.setattr("splat_cli.commands.info.describe_path", fail)
    assert run(["info", "somewhere"]) == 1
    assert capsys.readouterr().err == "Error: kernel blend failed\n"


CHILD = """
import sys
from pathlib import Path
import splat_cli.device.compilation.sources as sources
from splat_cli.cli.main import run

sources.resource_dir = lambda name: Path(sys.argv[1])
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.gpu
def test_kernel_that_writes_out_of_bounds_is_named(open_device, scene, tmp_path):
    """In a separate process, because its GPU context is lost."""
    open_device("cuda")
    sources = shutil.copytree(resource_dir("cuda_src"), tmp_path / "cuda_src")
    blend, line = sources / "raster" / "blend.cu", "    const Camera& camera = cameras[state->view];\n"
    assert blend.read_text().count(line) == 1
    blend.write_text(blend.read_text().replace(line, line + "    final_T[(size_t)1 << 40] = 0.0f;\n"))
    options = ["--debug", "train", scene, "-o", tmp_path / "run", "--device", "cuda", "--steps", "3"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    child = [sys.executable, "-c", CHILD, sources, *options]
    done = subprocess.run(child, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("Error: kernel blend on grid (")
    assert "block (32, 8, 1) with cameras uint8 [" in errors[0]
    assert "ILLEGAL" in errors[0].upper()


def test_refused_launch_is_named():
    def refuse(grid, block, args):
        raise RuntimeError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")

    kernel = CudaKernel("project", PARAMETERS, refuse, np.ndarray, lambda: None)
    with pytest.raises(DeviceError, match=r"kernel project on grid \(3, 1, 1\).*OUT_OF_RESOURCES"):
        kernel((3,), (32, 4), *ARGUMENTS)


def test_no_waiting_without_debug():
    log = []
    CudaKernel("project", PARAMETERS, launched(log), np.ndarray)((3,), (32,), *ARGUMENTS)
    assert log == [((3, 1, 1), (32, 1, 1))]


def test_no_graph_is_captured_with_debug(monkeypatch):
    """Waiting would end a capture."""
    monkeypatch.setattr(CudaBackend, "debug", True)
    backend, calls = CudaBackend.__new__(CudaBackend), []
    assert backend.capture_graph(lambda: calls.append(1)) is not None
    backend.capture_graph(lambda: calls.append(1))()
    assert calls == [1]


@pytest.mark.parametrize(("arguments", "debug"), [(["--debug", "info", "missing"], True), (["info", "missing"], False)])
def test_option_sets_debug(monkeypatch, capsys, arguments, debug):
    monkeypatch.setattr(CudaBackend, "debug", False)
    assert run(arguments) == 2
    assert CudaBackend.debug == debug

"""Is everything here that the program needs? One finding a part, with what to install where it is missing."""

import importlib.util
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from splat_cli.device import open_backend
from splat_cli.device.cuda import why_no_cuda
from splat_cli.device.host_compiler import find_compiler
from splat_cli.device.nvrtc import why_no_nvrtc
from splat_cli.errors import SplatError, one_line
from splat_cli.gaussians.knn import neighbor_distances

_EXTRAS = {
    "sfm": ("splat sfm", ("pycolmap", "imageio_ffmpeg")),
    "video": ("splat render --video", ("imageio_ffmpeg",)),
    "viewer": ("splat view, splat train --viewer", ("viser",)),
    "tensorboard": ("splat train --tensorboard", ("tensorboard",)),
    "flip": ("FLIP in splat eval and in reports", ("flip_evaluator",)),
    "zstd": ("SPZ files of version 4", ("zstandard",)),
    "test": ("the tests", ("pytest", "xdist", "hypothesis", "build")),
    "browser": ("tests of pages", ("playwright",)),
}
"""Extra -> what it is for, and the modules that it brings."""


@dataclass(frozen=True)
class Finding:
    """What was found of one part. `ok`: it works; `needed`: `splat train` cannot do without it."""

    part: str
    ok: bool
    text: str
    needed: bool = False


def check_up() -> list[Finding]:
    """Looks at Python, the GPU, the compiler and the extras, and runs a kernel wherever one can run."""
    cuda, cpu = _gpu(), _compiler()
    kernels = [_kernel(name) for name, finding in (("cuda", cuda), ("cpu", cpu)) if finding.ok]
    return [_python(), _cupy(), cuda, cpu, *kernels, _training(kernels), *map(_extra, _EXTRAS)]


def _python() -> Finding:
    system = f"{platform.system()} {platform.machine()}"
    return Finding("Python", True, f"{platform.python_version()}, NumPy {np.__version__}, {system}")


def _cupy() -> Finding:
    if importlib.util.find_spec("cupy") is None:
        advice = "pip install 'splat-cli[cuda13]', or [cuda12] for a driver older than 580"
        return Finding("CuPy", False, f"not installed; to compute on an NVIDIA GPU: {advice}")
    try:
        import cupy
    except ImportError as error:
        return Finding("CuPy", False, f"installed, but it does not load ({one_line(error)}); install it again")
    no_nvrtc = why_no_nvrtc()
    if no_nvrtc:
        return Finding("CuPy", False, f"{cupy.__version__}, but it cannot compile: {no_nvrtc}")
    return Finding("CuPy", True, f"{cupy.__version__}, with NVRTC")


def _gpu() -> Finding:
    reason = why_no_cuda()
    if reason:
        return Finding("GPU", False, reason)
    import cupy

    driver = cupy.cuda.runtime.driverGetVersion()
    return _attempt("GPU", lambda: f"{open_backend('cuda').describe()}, driver for CUDA {driver // 1000}")


def _compiler() -> Finding:
    return _attempt("C++ compiler", lambda: find_compiler().version)


def _kernel(device: str) -> Finding:
    """Compiles and runs a kernel whose result is known: distances of four points on a line."""

    def run() -> str:
        points = np.array([[0, 0, 0], [3, 0, 0], [4, 0, 0], [12, 0, 0]], np.float32)
        expected = np.sqrt([(9 + 16 + 144) / 3, (9 + 1 + 81) / 3, (16 + 1 + 64) / 3, (144 + 81 + 64) / 3])
        backend = open_backend(device)
        if not np.allclose(neighbor_distances(backend, points), expected, rtol=1e-5):
            raise ArithmeticError("it computed wrong numbers; please report this with the lines above")
        return f"runs: {backend.describe()}"

    return _attempt(f"kernel on {device}", run)


def _training(kernels: list[Finding]) -> Finding:
    """Whether there is any device to train on: what the others come to."""
    working = [kernel.part.removeprefix("kernel on ") for kernel in kernels if kernel.ok]
    if working:  # --device auto takes the first, whether or not its kernels run
        advice = "" if kernels[0].ok else f"; add --device {working[0]} to every command"
        return Finding("training", True, f"on {' and '.join(working)}{advice}", needed=True)
    wanted = "an NVIDIA GPU with CuPy, or a C++ compiler (apt install g++, or pip install ziglang)"
    if sys.platform != "linux":
        wanted = f"an NVIDIA GPU with CuPy: on {sys.platform} the CPU cannot be used"
    return Finding("training", False, f"no device works here; it takes {wanted}", needed=True)


def _extra(name: str) -> Finding:
    purpose, modules = _EXTRAS[name]
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        advice = f"for {purpose}: pip install 'splat-cli[{name}]' (lacks {', '.join(missing)})"
        return Finding(f"extra {name}", False, advice)
    return Finding(f"extra {name}", True, f"for {purpose}")


def _attempt(part: str, find: Callable[[], str]) -> Finding:
    """What `find` says, or why it failed: whatever is wrong with a driver must not end the others' check."""
    try:
        return Finding(part, True, find())
    except SplatError as error:
        return Finding(part, False, one_line(error))
    except Exception as error:
        return Finding(part, False, f"{type(error).__name__}: {one_line(error)}")

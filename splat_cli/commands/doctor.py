"""Implementation of `splat doctor`: checks of the installation, with advice for missing parts."""

import importlib.util
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from splat_cli.device import open_backend
from splat_cli.device.compilation.host_compiler import find_compiler
from splat_cli.device.compilation.nvrtc import why_no_nvrtc
from splat_cli.device.cuda import why_no_cuda
from splat_cli.errors import DeviceError, SplatError, one_line
from splat_cli.gaussians.from_points import neighbor_distances
from splat_cli.ranks.nccl import gpu_links, nccl_version, why_no_nccl

_EXTRAS = {
    "cpu": ("the CPU, without a system compiler", ("ziglang",)),
    "sfm": ("splat sfm", ("pycolmap", "imageio_ffmpeg")),
    "heic": ("HEIC photographs", ("pillow_heif",)),
    "las": ("point clouds in LAS and LAZ files", ("laspy", "lazrs")),
    "exr": ("depth maps in OpenEXR files", ("OpenEXR",)),
    "video": ("splat render --video", ("imageio_ffmpeg",)),
    "viewer": ("splat view, splat train --viewer, splat sfm --viewer", ("viser",)),
    "tensorboard": ("splat train --tensorboard", ("tensorboard",)),
    "cluster": ("splat batch --cluster", ("distributed", "dask_jobqueue")),
    "flip": ("splat eval and splat compare with FLIP", ("flip_evaluator",)),
    "lpips": ("splat eval --lpips, splat compare --lpips", ("lpips", "torch", "torchvision")),
    "mesh": ("splat mesh", ("skimage",)),
    "usd": ("splat export to OpenUSD", ("pxr",)),
    "plots": ("charts of scripts/figures/fit_image.py and fit_sphere.py", ("matplotlib",)),
    "test": ("the tests", ("pytest", "xdist", "pytest_timeout", "pyte", "hypothesis", "build", "sympy")),
    "browser": ("tests of pages", ("playwright",)),
}
"""Extra -> purpose, and modules."""
_FOR_DEVELOPERS = ("plots", "test", "browser")


@dataclass(frozen=True)
class Check:
    """Result for one part. ok: it works; needed: `splat train` requires it."""

    part: str
    ok: bool
    text: str
    needed: bool = False


def run_checks(with_developers: bool) -> list[Check]:
    """Check Python, GPU, compiler and extras, and run a kernel on each device.

    with_developers: check the extras for developers, too.
    """
    cuda, cpu = _gpu(), _compiler()
    kernels = [_kernel(name) for name, check in (("cuda", cuda), ("cpu", cpu)) if check.ok]
    several = [_several_gpus()] if cuda.ok else []
    extras = [_extra(name) for name in _EXTRAS if with_developers or name not in _FOR_DEVELOPERS]
    return [_python(), _cupy(), cuda, *several, cpu, *kernels, _training(kernels), *extras]


def _python() -> Check:
    system = f"{platform.system()} {platform.machine()}"
    return Check("Python", True, f"{platform.python_version()}, NumPy {np.__version__}, {system}")


def _cupy() -> Check:
    if importlib.util.find_spec("cupy") is None:
        advice = "pip install 'splat-cli[cuda13]', or [cuda12] for a driver older than 580"
        return Check("CuPy", False, f"not installed; to compute on an NVIDIA GPU: {advice}")
    try:
        import cupy
    except ImportError as error:
        return Check("CuPy", False, f"installed, but loading fails ({one_line(error)}); install it again")
    no_nvrtc = why_no_nvrtc()
    if no_nvrtc:
        return Check("CuPy", False, f"{cupy.__version__}, but it cannot compile: {one_line(no_nvrtc)}")
    return Check("CuPy", True, f"{cupy.__version__}, with NVRTC")


def _gpu() -> Check:
    reason = why_no_cuda()
    if reason:
        return Check("GPU", False, reason)
    import cupy

    driver = cupy.cuda.runtime.driverGetVersion()
    return _attempt("GPU", lambda: f"{open_backend('cuda').describe()}, driver for CUDA {driver // 1000}")


def _several_gpus() -> Check:
    """Whether `splat train --gpus` can use the GPUs, and how they are linked."""

    def find() -> str:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
        if (reason := why_no_nccl()) and count < 2:
            return f"{count} here"
        if reason:
            raise DeviceError(f"{count} here; for splat train --gpus: {reason}")
        links = ", ".join(f"{pairs} of {kind}" for kind, pairs in gpu_links().items())
        return f"{count} here, NCCL {nccl_version()}" + f"; links between pairs: {links}" * bool(links)

    return _attempt("several GPUs", find)


def _compiler() -> Check:
    return _attempt("C++ compiler", lambda: find_compiler().version)


def _kernel(device: str) -> Check:
    """Compile and run a kernel with a known result: distances of four points on a line."""

    def run() -> str:
        points = np.array([[0, 0, 0], [3, 0, 0], [4, 0, 0], [12, 0, 0]], np.float32)
        expected = np.sqrt([(9 + 16 + 144) / 3, (9 + 1 + 81) / 3, (16 + 1 + 64) / 3, (144 + 81 + 64) / 3])
        backend = open_backend(device)
        if not np.allclose(neighbor_distances(backend, points), expected, rtol=1e-5):
            raise ArithmeticError("it computed wrong numbers; please report this with the lines above")
        return f"runs: {backend.describe()}"

    return _attempt(f"kernel on {device}", run)


def _training(kernels: list[Check]) -> Check:
    """Summary: whether any device can train."""
    working = [kernel.part.removeprefix("kernel on ") for kernel in kernels if kernel.ok]
    if working:  # --device auto selects the first device, even if its kernels fail
        advice = "" if kernels[0].ok else f"; add --device {working[0]} to every command"
        return Check("training", True, f"on {' and '.join(working)}{advice}", needed=True)
    wanted = "an NVIDIA GPU with CuPy, or a C++ compiler (pip install 'splat-cli[cpu]', or apt install g++)"
    if sys.platform != "linux":
        wanted = f"an NVIDIA GPU with CuPy: on {sys.platform} the CPU cannot be used"
    return Check("training", False, f"no device works here; training needs {wanted}", needed=True)


def _extra(name: str) -> Check:
    purpose, modules = _EXTRAS[name]
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        advice = f"for {purpose}: pip install 'splat-cli[{name}]' (lacks {', '.join(missing)})"
        return Check(f"extra {name}", False, advice)
    return Check(f"extra {name}", True, f"for {purpose}")


def _attempt(part: str, find: Callable[[], str]) -> Check:
    """Result of `find`, or its exception as text: a failing driver must not stop other checks."""
    try:
        return Check(part, True, find())
    except SplatError as error:
        return Check(part, False, one_line(error))
    except Exception as error:
        return Check(part, False, f"{type(error).__name__}: {one_line(error)}")

"""Fixtures of all tests. A test that takes `backend` runs on the CPU and, where there is a GPU, on CUDA."""

from pathlib import Path

import pytest

from splat_cli.device import Backend, open_backend
from splat_cli.device.cuda import why_no_cuda


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the test run."""
    parser.addoption("--sanitize", action="store_true", help="sanitize the CPU's kernels, see scripts/sanitized.py")


def _open(name: str, config: pytest.Config, sources: Path | None = None) -> Backend:
    if name == "cuda" and (reason := why_no_cuda()):
        pytest.skip(reason)
    return open_backend(name, sanitize=name == "cpu" and config.getoption("--sanitize"), sources=sources)


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each backend that this machine has."""
    return _open(request.param, request.config)


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_kernels(request: pytest.FixtureRequest) -> Backend:
    """Each backend, with the small kernels of tests/device/kernels in place of the real ones."""
    return _open(request.param, request.config, Path(__file__).parent / "device" / "kernels")

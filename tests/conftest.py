"""Fixtures of all tests. A test that takes `backend` runs on the CPU and, where there is a GPU, on CUDA."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from splat_cli.device import Backend, open_backend
from splat_cli.device.cuda import why_no_cuda

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the test run."""
    parser.addoption("--sanitize", action="store_true", help="sanitize the CPU's kernels, see scripts/sanitized.py")


@pytest.fixture(scope="session")
def open_device(pytestconfig: pytest.Config) -> Callable[..., Backend]:
    """`open_device(name, sources=None)`: as open_backend; skips the test where there is no GPU for "cuda"."""

    def open_device(name: str, sources: Path | None = None) -> Backend:
        if name == "cuda" and (reason := why_no_cuda()):
            pytest.skip(reason)
        return open_backend(name, sanitize=name == "cpu" and pytestconfig.getoption("--sanitize"), sources=sources)

    return open_device


@pytest.fixture(scope="session", params=DEVICES)
def backend(request: pytest.FixtureRequest, open_device: Callable[..., Backend]) -> Backend:
    """Each device of this machine."""
    return open_device(request.param)


@pytest.fixture(scope="session", params=DEVICES)
def small_kernels(request: pytest.FixtureRequest, open_device: Callable[..., Backend]) -> Backend:
    """Each device of this machine, with the small kernels of tests/device/kernels in place of the real ones."""
    return open_device(request.param, Path(__file__).parent / "device" / "kernels")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless browser without a GPU, driven with playwright; skips the test where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="browsers are driven with playwright (extra browser)")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium: apt install chromium")
    options = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()

"""Fixtures of all tests. A test with the fixture `backend` runs on the CPU and, if there is a GPU, on CUDA."""

import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from splat_cli.cli.main import run
from splat_cli.device import Backend, open_backend
from splat_cli.device.cuda import why_no_cuda
from splat_cli.run.storage.run_dir import RunDir
from tests.compare import comparison  # noqa: F401
from tests.small_scene import write_small_scene
from tests.training import Trained

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the test run."""
    parser.addoption("--sanitize", action="store_true", help="sanitize CPU kernels, see scripts/checks/sanitized.py")
    parser.addoption("--write-skipped", type=Path, metavar="FILE", help="write the names of skipped tests and modules")
    parser.addoption("--only", type=Path, metavar="FILE", help="run only the tests that --write-skipped wrote")


class SkippedTests:
    """Writes the names of skipped tests, and of modules that were skipped as a whole, one per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a skipped test."""
        self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a module that was skipped while it was collected."""
        self._add(report)

    def _add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            self.names.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self.path.write_text("".join(f"{name}\n" for name in sorted(self.names)))


def pytest_configure(config: pytest.Config) -> None:
    """Record skipped tests in the main process, which gets reports from workers of pytest-xdist."""
    if (path := config.getoption("--write-skipped")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkippedTests(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests and modules in the file of --only. The wheel, which takes longest, comes first."""
    items.sort(key=lambda item: item.get_closest_marker("wheel") is None)
    if (path := config.getoption("--only")) is None:
        return
    names = set(path.read_text().splitlines())
    chosen = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & names]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> Iterator[None]:
    """Restore SIGINT and SIGHUP, also for child processes: background jobs and nohup start with them ignored."""
    numbers = [number for number in signal.Signals if number.name in ("SIGINT", "SIGHUP")]  # Windows has no SIGHUP
    before = [signal.getsignal(number) for number in numbers]
    for number, handler in zip(numbers, before, strict=True):
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def open_device(pytestconfig: pytest.Config) -> Callable[..., Backend]:
    """`open_device(name, sources=None)`: as open_backend; skips the test if there is no GPU for "cuda"."""

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
    """Each device of this machine, with the small kernels of tests/device/kernels in addition to the real ones."""
    return open_device(request.param, Path(__file__).parent / "device" / "kernels")


@pytest.fixture
def chromium(running_chromium: Any) -> Iterator[Any]:
    """A headless browser without a GPU, driven with playwright; skips the test without a browser."""
    yield running_chromium
    for context in running_chromium.contexts:  # open pages go on rendering
        context.close()


@pytest.fixture(scope="session")
def running_chromium() -> Iterator[Any]:
    """The browser of all tests."""
    api = pytest.importorskip("playwright.sync_api", reason="browsers are driven with playwright (extra browser)")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium: apt install chromium")
    options = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


@dataclass
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def splat(capsys, monkeypatch, tmp_path):
    """`splat("train", scene, ...)` runs the command in an empty folder; Result has exit code, stdout and stderr."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def call(*arguments):
        capsys.readouterr()
        code = run([str(one) for one in arguments])
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def scene(tmp_path_factory):
    return write_small_scene(tmp_path_factory.mktemp("scenes") / "toy")


@pytest.fixture(scope="session")
def trained(scene, tmp_path_factory):
    """A run of 20 steps with three photographs held out, also saved after 10 steps. Do not modify."""
    out = tmp_path_factory.mktemp("runs") / "toy"
    options = ["--device", "cpu", "--eval", "--test-every", "3", "--steps", "20", "--save-at", "10,50"]
    assert run(["train", str(scene), "-o", str(out), *options]) == 0
    return out


@pytest.fixture
def run_copy(trained, tmp_path):
    """A copy of the run, for commands that write into it."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def training(scene):
    return Trained(scene)


@pytest.fixture(scope="session")
def finished(scene, tmp_path_factory):
    """An uninterrupted run of 60 steps. Do not modify."""
    return Trained(scene).new(tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of the finished run, without its result and its end: as if it had been killed after step 45."""
    run = RunDir(shutil.copytree(finished.path, tmp_path / "run"))
    run.result_path.unlink()
    shutil.rmtree(run.ply_path(60).parent)
    (run.checkpoints_path / "step_60.npz").unlink()
    return run

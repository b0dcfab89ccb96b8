"""The compiler of CPU kernels: how it is found, its messages, interruption."""

import os
import shlex
import signal
import subprocess
import sys

import pytest

from splat_cli.device import open_backend
from splat_cli.device.compilation import host_compiler
from splat_cli.device.compilation.host_compiler import find_compiler
from splat_cli.device.compilation.kernel_cache import cache_dir
from splat_cli.device.compilation.sources import read_source, source_folders
from splat_cli.errors import DeviceError
from tests.device.compilation.small_kernel import value
from tests.subprocesses import HANG, started, wait_until

SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*) echo "slow 1.0";; *) touch "{folder}/started"; sleep {seconds} & wait;; esac
"""


def test_ctrl_c_ends_the_compiler_too(sources, tmp_path):
    """A terminal sends Ctrl+C to the whole process group."""
    compiler = tmp_path / "slow"
    compiler.write_text(SLOW_COMPILER.format(folder=tmp_path, seconds=2 * HANG))
    compiler.chmod(0o755)
    code = "from splat_cli.device import open_backend; open_backend('cpu')"
    environment = {**os.environ, "CXX": str(compiler)}
    command = [sys.executable, "-c", code]
    with started(command, env=environment, start_new_session=True, stderr=subprocess.PIPE) as process:
        wait_until((tmp_path / "started").exists, process)
        os.killpg(process.pid, signal.SIGINT)
        err = process.communicate(timeout=HANG)[1]
    assert "KeyboardInterrupt" in err
    assert "cannot compile" not in err
    assert list(cache_dir().iterdir()) == []


def test_compile_errors_name_the_line(sources):
    (sources / "k.cu").write_text('extern "C" __global__ void k(int* x)\n{\n    x[0] = unknown;\n}\n')
    with pytest.raises(DeviceError, match=r"cannot compile k:\n(.*\n)*.*k.cu:3:\d+: error: .*unknown"):
        value(sources)


def test_a_full_disk_is_one_line(sources, tmp_path, monkeypatch):
    """The compiler's temporary files are next to the cache."""
    compiler = tmp_path / "full"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo full 1.0;; '
        "*) echo 'k.cu:1: fatal error: /x.s: No space left on device' >&2; exit 1;; esac\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(DeviceError, match=r"^cannot keep compiled kernels in .* \(No space left on device\): set .*$"):
        value(sources)


def test_no_compiler(sources, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"no C\+\+ compiler .*`pip install 'splat-cli\[cpu\]'`"):
        open_backend("cpu", sources=sources)


@pytest.fixture
def fresh_versions():
    """Clears the cache of compiler versions before and after the test."""
    host_compiler._version.cache_clear()
    yield
    host_compiler._version.cache_clear()


def test_ziglang_is_the_last_resort(tmp_path, monkeypatch, fresh_versions):
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").touch()
    (tmp_path / "ziglang" / "__main__.py").write_text("print('clang version 20.1.2')")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    compiler = find_compiler()
    assert compiler.command == (sys.executable, "-m", "ziglang", "c++")
    assert compiler.linker == (sys.executable, "-m", "ziglang", "ld.lld", "-shared")
    assert compiler.label == "clang 20.1"


def test_ziglang_compiles_kernels_that_run(sources, monkeypatch):
    """The runtime and a kernel need no C++ library, have no debug information, and leave no other files."""
    pytest.importorskip("ziglang", reason="extra cpu")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert value(sources, EXTRA=3) == 4
    libraries = sorted(cache_dir().iterdir())
    assert [path.suffix for path in libraries] == [".so", ".so"]
    assert not any(b".debug_" in path.read_bytes() for path in libraries)


@pytest.mark.parametrize("home", [None, "/proc"])
def test_ziglang_needs_no_home_folder(sources, monkeypatch, fresh_versions, home):
    """The home folder is missing or read-only. In /proc, zig would try names of new folders forever."""
    pytest.importorskip("ziglang", reason="extra cpu")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("HOME")
    if home:
        monkeypatch.setenv("HOME", home)
    assert find_compiler().label.startswith("clang")


@pytest.mark.parametrize("file", ["runtime", "raster/project"])
def test_libraries_for_windows_are_made(sources, monkeypatch, fresh_versions, file):
    """ziglang compiles and links them here. No function is missing, and functions that Python calls are exported."""
    pytest.importorskip("ziglang", reason="extra cpu")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(host_compiler, "_IS_WINDOWS", True)
    compiler = find_compiler(flags=("-target", "x86_64-windows-gnu", "-march=x86_64_v3"))
    folders = source_folders(None)
    if file == "runtime":
        unit, exports = '#include "cpu/runtime.cpp"\n', ["splat_run_blocks", "splat_simd"]
    else:
        source = read_source(folders, file)
        unit, exports = source.cpu_unit(), [f"splat_launch_{name}" for name in source.kernels]
    library = compiler.library(file, unit, folders, {})
    content = library.read_bytes()
    assert (library.suffix, content[:2]) == (".dll", b"MZ")
    assert all(name.encode() + b"\0" in content for name in exports)


@pytest.mark.parametrize("command", ['"x', "'", "g++ \\"])
def test_invalid_cxx_is_an_error(sources, monkeypatch, command):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(DeviceError, match="which is not a valid command line") as caught:
        open_backend("cpu", sources=sources)
    assert "\n" not in str(caught.value)


def test_empty_cxx_is_ignored(sources, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    usual = find_compiler().command
    for command in ("", " ", "\t\n"):
        monkeypatch.setenv("CXX", command)
        assert find_compiler().command == usual
    monkeypatch.setenv("CXX", "''")
    with pytest.raises(DeviceError, match=r"found no C\+\+ compiler \(''\)"):
        find_compiler()


def test_cxx_chooses_the_compiler(sources, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(DeviceError, match="no-such-compiler -O1"):
        open_backend("cpu", sources=sources)
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(DeviceError, match=r"`false --version` failed .*set CXX to a C\+\+ compiler"):
        open_backend("cpu", sources=sources)
    monkeypatch.delenv("CXX")
    chosen = (*find_compiler().command, "-DFROM_ENVIRONMENT")
    monkeypatch.setenv("CXX", shlex.join(chosen))
    assert find_compiler().command == chosen
    assert value(sources) == 1

"""Compiling for the CPU: the cache is never stale, and messages help."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from splat_cli.device import host_compiler, open_backend
from splat_cli.device.host_compiler import HostCompiler, find_compiler
from splat_cli.device.kernel_cache import cache_dir, is_intact
from splat_cli.errors import DeviceError
from tests.processes import HANG, started, wait_until

KERNEL = '#include "value.cuh"\nextern "C" __global__ void k(int* x) { x[0] = VALUE + EXTRA; }\n'


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A folder with a kernel file and its header, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "k.cu").write_text(KERNEL)
    (folder / "value.cuh").write_text('#include "deeper.cuh"\n')
    (folder / "deeper.cuh").write_text("#define VALUE 1\n")
    return folder


def value(folder, **defines):
    x = np.zeros(1, np.int32)
    open_backend("cpu", sources=folder).kernel("k", "k", **({"EXTRA": 0} | defines))((1,), (1,), x)
    return int(x[0])


def test_cache_is_used_and_never_stale(sources):
    assert value(sources) == 1
    files = sorted(cache_dir().glob("k-*.so"))
    times = [f.stat().st_mtime_ns for f in files]
    assert value(sources) == 1
    assert [f.stat().st_mtime_ns for f in sorted(cache_dir().glob("k-*.so"))] == times
    (sources / "deeper.cuh").write_text("#define VALUE 2\n")
    assert value(sources) == 2
    (sources / "k.cu").write_text(KERNEL.replace("VALUE", "10 * VALUE"))
    assert value(sources) == 20
    assert value(sources, EXTRA=5) == 25
    assert not [p for p in cache_dir().iterdir() if p.suffix != ".so"]


def test_who_needs_a_library_that_is_being_compiled_waits_for_it(sources, monkeypatch):
    compiled, compile = [], HostCompiler._compile

    def counted(self, path, name, *arguments):
        compiled.append(name)
        compile(self, path, name, *arguments)

    monkeypatch.setattr(HostCompiler, "_compile", counted)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: value(sources), range(4))) == [1] * 4
    assert compiled.count("k") == 1


@pytest.mark.parametrize("damage", ["empty", "half", "flip"])
def test_a_damaged_library_is_compiled_again(sources, damage):
    assert value(sources) == 1
    for path in cache_dir().glob("*.so"):
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 1
        path.unlink()  # this process has mapped it
        path.write_bytes(content if damage == "flip" else content[: len(content) // 2] if damage == "half" else b"")
    assert value(sources) == 1
    assert all(is_intact(path) for path in cache_dir().glob("*.so"))


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_the_cache_is_of_the_user_alone(sources, mask):
    before = os.umask(mask)
    try:
        assert value(sources) == 1
    finally:
        os.umask(before)
    assert cache_dir().stat().st_mode & 0o777 == 0o700
    assert all(is_intact(path) for path in cache_dir().glob("*.so"))


def test_a_cache_that_others_may_write_is_refused(sources):
    assert value(sources) == 1
    cache_dir().chmod(0o775)
    with pytest.raises(DeviceError, match=rf"mode 775.*`rm -r {cache_dir()}`, or set XDG_CACHE_HOME") as caught:
        value(sources)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
def test_a_cache_or_library_of_somebody_else_is_not_used(sources):
    assert value(sources) == 1
    (library,) = cache_dir().glob("k-*.so")
    os.chown(library, 12345, 12345)
    assert not is_intact(library)
    assert value(sources) == 1
    assert is_intact(library)
    os.chown(cache_dir(), 12345, 12345)
    with pytest.raises(DeviceError, match="owner 12345"):
        value(sources)


def test_folders_of_killed_compilations_are_removed(sources):
    assert value(sources) == 1
    old, new = cache_dir() / "tmp_old", cache_dir() / "tmp_new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "library.so").touch()
    os.utime(old, (0, 0))
    assert value(sources, EXTRA=2) == 3
    assert (old.exists(), new.exists()) == (False, True)


SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*) echo "slow 1.0";; *) touch "{folder}/started"; sleep {seconds} & wait;; esac
"""


def test_ctrl_c_ends_the_compiler_too(sources, tmp_path):
    """As a terminal sends it: to the whole process group."""
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


def test_cache_that_cannot_be_written(sources, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match=r"cannot keep compiled kernels in .*: set XDG_CACHE_HOME"):
        value(sources)


def test_no_compiler(sources, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"no C\+\+ compiler .*`pip install 'splat-cli\[cpu\]'`"):
        open_backend("cpu", sources=sources)


@pytest.fixture
def fresh_versions():
    """Compilers are asked for their version anew, then and after the test."""
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
    """The runtime and a kernel, without a C++ library or debug information, with nothing left beside the cache."""
    pytest.importorskip("ziglang", reason="extra cpu")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert value(sources, EXTRA=3) == 4
    libraries = sorted(cache_dir().iterdir())
    assert [path.suffix for path in libraries] == [".so", ".so"]
    assert not any(b".debug_" in path.read_bytes() for path in libraries)


@pytest.mark.parametrize("command", ['"x', "'", "g++ \\"])
def test_environment_that_names_no_command_line(sources, monkeypatch, command):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(DeviceError, match="which is no command line") as caught:
        open_backend("cpu", sources=sources)
    assert "\n" not in str(caught.value)


def test_environment_with_an_empty_command_names_none(sources, monkeypatch):
    usual = find_compiler().command
    for command in ("", " ", "\t\n"):
        monkeypatch.setenv("CXX", command)
        assert find_compiler().command == usual
    monkeypatch.setenv("CXX", "''")
    with pytest.raises(DeviceError, match=r"found no C\+\+ compiler \(''\)"):
        find_compiler()


def test_no_home(sources, monkeypatch):
    """Neither in the environment nor among the system's users, as in a container."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    with pytest.raises(DeviceError, match="set HOME or XDG_CACHE_HOME"):
        value(sources)


def test_compiler_of_the_environment(sources, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(DeviceError, match="no-such-compiler -O1"):
        open_backend("cpu", sources=sources)
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(DeviceError, match=r"`false --version` failed .*set CXX to a C\+\+ compiler"):
        open_backend("cpu", sources=sources)
    monkeypatch.delenv("CXX")
    chosen = find_compiler().command[0]
    monkeypatch.setenv("CXX", f"{chosen} -DFROM_ENVIRONMENT")
    assert find_compiler().command == (chosen, "-DFROM_ENVIRONMENT")
    assert value(sources) == 1

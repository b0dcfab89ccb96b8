"""Compiling for the CPU: the cache is never stale, and messages help."""

import sys

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.device.host_compiler import cache_dir, find_compiler
from splat_cli.errors import DeviceError

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
    with pytest.raises(DeviceError, match=r"no C\+\+ compiler .*`apt install g\+\+` or `pip"):
        open_backend("cpu", sources=sources)


def test_ziglang_is_the_last_resort(tmp_path, monkeypatch):
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__main__.py").write_text("print('clang version 20.1.2')")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    compiler = find_compiler()
    assert compiler.command == (sys.executable, "-m", "ziglang", "c++")
    assert compiler.label == "clang 20.1"


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

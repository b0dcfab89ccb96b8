"""Units are compiled once, in the first thread that needs them; all threads that need them get the errors."""

import threading
from types import SimpleNamespace

import pytest

from splat_cli.device.compilation.sources import CompiledUnits
from splat_cli.device.cuda import CudaBackend
from splat_cli.errors import DeviceError
from tests.subprocesses import HANG


def _all_threads_end():
    for thread in threading.enumerate():
        if thread.name.startswith("compiler "):
            thread.join(HANG)
            assert not thread.is_alive()


def test_each_unit_is_compiled_once():
    compiled = []

    def compile(file, defines):
        compiled.append((file, defines))
        return len(compiled)

    units = CompiledUnits(compile)
    units.prepare([("a", {}), ("a", {"X": 1}), ("a", {})], num_threads=1)
    _all_threads_end()
    assert (units.get("a", {}), units.get("a", {"X": 1}), units.get("b", {})) == (1, 2, 3)
    assert compiled == [("a", {}), ("a", {"X": 1}), ("b", {})]


def test_get_waits_for_the_compiling_thread():
    begun, go_on, compiled = threading.Event(), threading.Event(), []

    def compile(file, defines):
        begun.set()
        assert go_on.wait(HANG)
        compiled.append(file)
        return file

    units = CompiledUnits(compile)
    units.prepare([("a", {})], num_threads=4)
    assert begun.wait(HANG)
    threading.Timer(0.1, go_on.set).start()
    assert units.get("a", {}) == "a"
    assert compiled == ["a"]


def test_prepare_returns_a_function_that_waits():
    go_on, compiled = threading.Event(), []
    units = CompiledUnits(lambda file, defines: go_on.wait(HANG) and compiled.append(file))
    wait = units.prepare([("a", {}), ("b", {}), ("c", {})], num_threads=2)
    threading.Timer(0.1, go_on.set).start()
    wait()
    assert sorted(compiled) == ["a", "b", "c"]


def test_get_does_not_wait_for_other_units():
    go_on = threading.Event()
    units = CompiledUnits(lambda file, defines: file if file == "b" else go_on.wait(HANG))
    units.prepare([("a", {}), ("b", {})], num_threads=1)
    assert units.get("b", {}) == "b"
    go_on.set()
    _all_threads_end()


def test_get_raises_the_error_of_a_prepared_unit():
    def compile(file, defines):
        if file == "broken":
            raise DeviceError("no good")
        return file

    units = CompiledUnits(compile)
    units.prepare([("broken", {}), ("a", {})], num_threads=1)
    _all_threads_end()
    assert units.get("a", {}) == "a"
    with pytest.raises(DeviceError, match="no good"):
        units.get("broken", {})


def test_get_tries_again_after_a_failure():
    results = iter([OSError("disk full"), "compiled"])

    def compile(file, defines):
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    units = CompiledUnits(compile)
    with pytest.raises(OSError, match="disk full"):
        units.get("a", {})
    assert units.get("a", {}) == "compiled"


def test_each_compiler_thread_calls_enter():
    entered = []
    units = CompiledUnits(lambda file, defines: threading.current_thread().name)
    units.prepare([("a", {}), ("b", {})], num_threads=8, enter=lambda: entered.append(threading.current_thread().name))
    _all_threads_end()
    assert sorted(entered) == ["compiler 0", "compiler 1"]


def test_kernels_can_be_prepared(small_kernels):
    small_kernels.prepare([("plain", {}), ("no such file", {})])
    _all_threads_end()
    with pytest.raises(DeviceError, match="no kernel file"):
        small_kernels.kernel("no such file", "k")


def test_units_of_a_deleted_object_are_not_compiled():
    begun, go_on, compiled = threading.Event(), threading.Event(), []

    def compile(file, defines):
        compiled.append(file)
        begun.set()
        assert go_on.wait(HANG)

    units = CompiledUnits(compile)
    units.prepare([("a", {}), ("b", {})], num_threads=1)
    assert begun.wait(HANG)
    del units
    go_on.set()
    _all_threads_end()
    assert compiled == ["a"]


def test_kernels_of_a_gpu_differ_by_their_source_not_by_options(tmp_path):
    """For each set of options, CuPy compiles an empty file; a change of a header must reach its cache's key."""
    (tmp_path / "k.cu").write_text('#include "h.cuh"\nextern "C" __global__ void k(int* x) {}\n')
    compiled, backend = [], CudaBackend.__new__(CudaBackend)
    module = SimpleNamespace(compile=lambda: None)
    backend.xp = SimpleNamespace(RawModule=lambda code, options: compiled.append((code, options)) or module)
    backend._folders = (tmp_path,)
    for header, defines in (("1", {}), ("2", {}), ("2", {"B": 2, "A": 1})):
        (tmp_path / "h.cuh").write_text(header)
        backend._load_module("k", defines)
    codes, options = zip(*compiled, strict=True)
    assert len(set(codes)) == 3
    assert len(set(options)) == 1
    assert f'\n#define A 1\n#define B 2\n#line 1 "{(tmp_path / "k.cu").as_posix()}"\n#include' in codes[2]

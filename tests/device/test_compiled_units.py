"""Units are compiled once, in the first thread that needs them; errors are raised in every one."""

import threading

import pytest

from splat_cli.device.compiled_units import CompiledUnits
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


def test_who_needs_a_unit_waits_for_the_thread_that_compiles_it():
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


def test_preparing_returns_how_to_wait():
    go_on, compiled = threading.Event(), []
    units = CompiledUnits(lambda file, defines: go_on.wait(HANG) and compiled.append(file))
    wait = units.prepare([("a", {}), ("b", {}), ("c", {})], num_threads=2)
    threading.Timer(0.1, go_on.set).start()
    wait()
    assert sorted(compiled) == ["a", "b", "c"]


def test_a_unit_that_is_needed_now_does_not_wait_for_others():
    go_on = threading.Event()
    units = CompiledUnits(lambda file, defines: file if file == "b" else go_on.wait(HANG))
    units.prepare([("a", {}), ("b", {})], num_threads=1)
    assert units.get("b", {}) == "b"
    go_on.set()
    _all_threads_end()


def test_what_fails_ahead_is_an_error_where_it_is_needed():
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


def test_after_a_failure_the_next_tries_again():
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


def test_threads_are_entered():
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


def test_units_that_nobody_can_ask_for_any_more_are_not_compiled():
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

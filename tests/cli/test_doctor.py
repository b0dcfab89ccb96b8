"""`splat doctor` on machines that lack something: it goes on, and says what to install."""

import json
import sys
from types import SimpleNamespace

import pytest

from splat_cli.errors import DeviceError
from splat_cli.train import checkup


def findings(splat):
    result = splat("doctor", "--json")
    return json.loads(result.out), result.code


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(checkup, "why_no_cuda", lambda: "CuPy sees no GPU; check `nvidia-smi`")


@pytest.fixture
def no_compiler(monkeypatch, no_gpu):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_a_machine_with_a_compiler_can_train(splat, no_gpu):
    found, code = findings(splat)
    assert code == 0
    assert found["kernel on cpu"]["ok"]
    assert "kernel on cuda" not in found
    assert found["training"] == {"ok": True, "text": "on cpu"}


def test_no_compiler_and_no_gpu(splat, no_compiler):
    found, code = findings(splat)
    assert code == 1
    assert "apt install g++" in found["C++ compiler"]["text"]
    assert "apt install g++" in found["training"]["text"]
    assert "pip install 'splat-cli[cuda13]'" in found["CuPy"]["text"]
    assert "pip install 'splat-cli[sfm]'" in found["extra sfm"]["text"]
    assert splat("doctor").out.count("\n--  ") == len(found) - 1  # all but Python


def test_cupy_that_does_not_load(splat, no_gpu, monkeypatch):
    monkeypatch.setattr(checkup.importlib.util, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it raises ImportError
    assert "does not load" in findings(splat)[0]["CuPy"]["text"]


def test_gpu_whose_kernels_fail(splat, monkeypatch):
    """--device auto would still take it."""

    def open_backend(name):
        if name == "cuda":
            raise RuntimeError("the driver\nis too old")
        return cpu(name)

    cpu = checkup.open_backend
    monkeypatch.setattr(checkup, "open_backend", open_backend)
    monkeypatch.setattr(checkup, "_gpu", lambda: checkup.Finding("GPU", True, "a GPU"))
    found, code = findings(splat)
    assert code == 0
    assert found["kernel on cuda"] == {"ok": False, "text": "RuntimeError: the driver is too old"}
    assert found["training"]["text"] == "on cpu; add --device cpu to every command"


def test_wrong_numbers_are_noticed(splat, no_gpu, monkeypatch):
    monkeypatch.setattr(checkup, "neighbor_distances", lambda backend, points: points[:, 0])
    found, code = findings(splat)
    assert code == 1
    assert "wrong numbers" in found["kernel on cpu"]["text"]


def test_a_compiler_that_does_not_work(splat, no_gpu, monkeypatch):
    def find_compiler():
        raise DeviceError("`false --version` failed: set CXX to a C++ compiler")

    monkeypatch.setattr(checkup, "find_compiler", find_compiler)
    found, code = findings(splat)
    assert (code, found["C++ compiler"]["ok"]) == (1, False)

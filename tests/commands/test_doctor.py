"""`splat doctor` on incomplete installations: it continues, and advises on packages to install."""

import importlib.metadata
import json
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from splat_cli.commands import doctor
from splat_cli.errors import DeviceError
from splat_cli.ranks import nccl

ROOT = Path(__file__).parents[2]
RUNTIME = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=lambda: 1))


def checks(splat):
    result = splat("doctor", "--json")
    return json.loads(result.out), result.code


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(doctor, "why_no_cuda", lambda: "CuPy sees no GPU; check `nvidia-smi`")


@pytest.fixture
def no_compiler(monkeypatch, no_gpu):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_a_machine_with_a_compiler_can_train(splat, no_gpu):
    found, code = checks(splat)
    assert code == 0
    assert found["kernel on cpu"]["ok"]
    assert "kernel on cuda" not in found
    assert found["training"] == {"ok": True, "text": "on cpu"}


def test_no_compiler_and_no_gpu(splat, no_compiler):
    found, code = checks(splat)
    assert code == 1
    assert "apt install g++" in found["C++ compiler"]["text"]
    assert "pip install 'splat-cli[cpu]', or apt install g++" in found["training"]["text"]
    assert "pip install 'splat-cli[cuda13]'" in found["CuPy"]["text"]
    assert "pip install 'splat-cli[sfm]'" in found["extra sfm"]["text"]
    assert splat("doctor").out.count("\n--  ") == len(found) - 1  # all but Python


def test_extras_are_those_that_can_be_installed():
    """Each extra lists the modules of its packages. Extras for GPUs and for development are not listed."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert doctor._EXTRAS.keys() == declared.keys() - {"all", "cuda12", "cuda13", "sfm-cuda", "nvrtc", "dev"}
    brought_by = importlib.metadata.packages_distributions()
    for extra, (_, modules) in doctor._EXTRAS.items():
        assert len(modules) == len(declared[extra])
        for module, requirement in zip(modules, declared[extra], strict=True):
            package = re.match(r"[\w-]+", requirement)[0]
            assert module not in brought_by or package in brought_by[module]


def test_extras_for_developers_are_checked_on_request_only(splat):
    developers = {"extra plots", "extra test", "extra browser"}
    usual, everything = (json.loads(splat("doctor", "--json", *options).out) for options in ([], ["--all"]))
    assert everything.keys() - usual.keys() == developers


def test_complete_installation(splat, monkeypatch):
    """A GPU, CuPy and every extra: nothing to advise."""
    cpu = doctor.open_backend("cpu")
    monkeypatch.setattr(doctor, "open_backend", lambda name: cpu)
    monkeypatch.setattr(doctor, "_gpu", lambda: doctor.Check("GPU", True, "a GPU"))
    monkeypatch.setattr(doctor, "why_no_nvrtc", lambda: "")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="14.0", cuda=RUNTIME))
    found, code = checks(splat)
    assert code == 0
    assert all(check["ok"] for check in found.values())
    assert found["training"]["text"] == "on cuda and cpu"
    assert "pip install" not in json.dumps(found)


def test_gpu_and_cupy_without_compiler(splat, monkeypatch):
    """Training needs no compiler; the CPU is not offered."""
    cpu = doctor.open_backend("cpu")
    monkeypatch.setattr(doctor, "open_backend", lambda name: cpu)
    monkeypatch.setattr(doctor, "_gpu", lambda: doctor.Check("GPU", True, "a GPU"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found, code = checks(splat)
    assert code == 0
    assert found["training"]["text"] == "on cuda"
    assert "kernel on cpu" not in found
    assert "apt install g++" in found["C++ compiler"]["text"]


def test_cupy_without_nvrtc(splat, no_gpu, monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="14.0"))
    monkeypatch.setattr(doctor, "why_no_nvrtc", lambda: "no NVRTC (pip install 'splat-cli[nvrtc]')")
    found, _ = checks(splat)
    assert found["CuPy"] == {
        "ok": False,
        "text": "14.0, but it cannot compile: no NVRTC (pip install 'splat-cli[nvrtc]')",
    }


def test_cupy_that_does_not_load(splat, no_gpu, monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it raises ImportError
    assert "loading fails" in checks(splat)[0]["CuPy"]["text"]


def test_gpu_whose_kernels_fail(splat, monkeypatch):
    """--device auto would still choose it."""

    def open_backend(name):
        if name == "cuda":
            raise RuntimeError("the driver\nis too old")
        return cpu(name)

    cpu = doctor.open_backend
    monkeypatch.setattr(doctor, "open_backend", open_backend)
    monkeypatch.setattr(doctor, "_gpu", lambda: doctor.Check("GPU", True, "a GPU"))
    found, code = checks(splat)
    assert code == 0
    assert found["kernel on cuda"] == {"ok": False, "text": "RuntimeError: the driver is too old"}
    assert found["training"]["text"] == "on cpu; add --device cpu to every command"


def test_wrong_numbers_are_noticed(splat, no_gpu, monkeypatch):
    monkeypatch.setattr(doctor, "neighbor_distances", lambda backend, points: points[:, 0])
    found, code = checks(splat)
    assert code == 1
    assert "wrong numbers" in found["kernel on cpu"]["text"]


def test_broken_compiler(splat, no_gpu, monkeypatch):
    def find_compiler():
        raise DeviceError("`false --version` failed: set CXX to a C++ compiler")

    monkeypatch.setattr(doctor, "find_compiler", find_compiler)
    found, code = checks(splat)
    assert (code, found["C++ compiler"]["ok"]) == (1, False)


TOPOLOGY = """\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV18\tSYS\t0-47\t0
GPU1\tNV18\t X \tNV18\t0-47\t0
GPU2\tSYS\tNV18\t X \t0-47\t0

Legend:
"""


def test_links_between_gpus_are_reported(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{TOPOLOGY}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert nccl.gpu_links() == {"NV18": 2, "SYS": 1}
    monkeypatch.setenv("PATH", "")
    assert nccl.gpu_links() == {}


def test_several_gpus_without_nccl(monkeypatch):
    monkeypatch.setattr(doctor, "why_no_nccl", lambda: "CuPy finds no NCCL")
    two = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=lambda: 2))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=two))
    assert doctor._several_gpus() == doctor.Check(
        "several GPUs", False, "2 here; for splat train --gpus: CuPy finds no NCCL"
    )


def test_a_message_of_cupy_is_one_line(monkeypatch):
    """The message lists libraries and ends with a line break."""
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(__version__="14.2.0", __spec__=SimpleNamespace()))
    monkeypatch.setattr(doctor, "why_no_nvrtc", lambda: "no libnvrtc.so.13\n (pip install 'splat-cli[nvrtc]')")
    assert doctor._cupy().text.endswith("cannot compile: no libnvrtc.so.13 (pip install 'splat-cli[nvrtc]')")

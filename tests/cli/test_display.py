"""Output of commands with --quiet, --verbose and --progress, by stream."""

import pytest

from splat_cli.device import open_backend
from splat_cli.run import device


@pytest.fixture
def train(splat, scene):
    def train(*options):
        result = splat("train", scene, "--device", "cpu", "--steps", 2, "--no-report", *options)
        assert result.code == 0, result.err
        return result

    return train


def test_quiet_prints_only_the_result(train):
    result = train("--quiet")
    assert result.err == ""
    assert "splats after 2 steps" in result.out


def test_log_files_get_plain_lines(train):
    result = train()
    assert "step 2/2, loss " in result.err
    assert result.err.replace("\n", "").isprintable()


@pytest.mark.parametrize(("asked", "warned"), [("auto", True), ("cpu", False)])
def test_idle_gpu_is_reported(train, monkeypatch, tmp_path, asked, warned):
    monkeypatch.setattr(device, "_NVIDIA_DRIVER", tmp_path)
    monkeypatch.setattr(device, "open_backend", lambda name, threads: open_backend("cpu", threads=threads))
    monkeypatch.setattr(device, "why_no_cuda", lambda: "CuPy is not installed")
    shown = train("--device", asked).err
    assert "Device: CPU, " in shown
    assert ("Warning: there is an NVIDIA GPU, but CuPy is not installed; " in shown) == warned


def test_verbose_prints_the_time_of_each_phase(train):
    assert "Time: " not in train().err
    assert "Time: starting " in train("--verbose").err


def test_progress_bar_on_request(train):
    assert "| 2/2, took" in train("--progress", "bar").err


def test_quiet_and_verbose_exclude_each_other(splat):
    result = splat("render", "run", "-q", "-v")
    assert (result.code, result.err) == (2, "Error: --quiet and --verbose exclude each other\n")

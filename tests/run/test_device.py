"""Kernels compiled ahead of time: all kernels of a run, and few others; the warning before hours on a CPU."""

import dataclasses
import re
import signal

import pytest

from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config
from splat_cli.device.cpu import CpuBackend
from splat_cli.run import device, follower
from splat_cli.run.device import duration_warning, kernels_of_run, prepare_kernels
from splat_cli.run.plan import resolve_plan
from splat_cli.train.trainer import Trainer
from tests.training import SETTINGS
from tests.views import ring_of_views

RUNS = {
    "default": {},
    "long": {"noise_scale": 1000.0, "strategy": "mcmc"},
    "adc": {"strategy": "adc", "absgrad": True, "dropout": 0.0},
    "cameras": {
        "pose_opt": True,
        "appearance": "exposure",
        "background": "learned",
        "depth_weight": 0.1,
        "free_space": 0.1,
        "smooth_3d": 0.2,
    },
    "grid": {"appearance": "grid", "robust": True},
    "camera": {"appearance": "camera"},
    "intrinsics": {"pose_opt": True, "refine_intrinsics": True, "refine_distortion": True},
    "field": {"color": "field", "field_appearance": 4, "dropout": 0.1},
    "random": {"init": "random", "noise_scale": 0.0},
    "visible": {"visible_adam": True, "batch": 2, "noise_scale": 1000.0, "strategy": "mcmc"},
}
BY_CHANCE = {"morton", "raster/project", "density/refine", "density/sampling"}  # unused if rounds find nothing to do


def _keys(units):
    return {(file, *sorted(defines.items())) for file, defines in units}


@pytest.mark.parametrize("name", RUNS)
def test_kernels_of_a_run_are_compiled_ahead(name, training, tmp_path, monkeypatch):
    used = []
    kernel = CpuBackend.kernel

    def recorded(self, file, name, **defines):
        used.append((file, defines))
        return kernel(self, file, name, **defines)

    monkeypatch.setattr(CpuBackend, "kernel", recorded)
    training.new(tmp_path / "run", steps=30, report=False, **RUNS[name])
    ahead = _keys(kernels_of_run(load_config(None, {**SETTINGS, "steps": 30, **RUNS[name]}), "cpu"))
    assert _keys(used) - ahead == set()
    assert {key for key in ahead - _keys(used) if key[0] not in BY_CHANCE} == set()


def test_all_kernels_are_compiled_before_the_first_step(training, tmp_path, monkeypatch):
    """A Ctrl-C must not wait for the compiler, also if the batch has another size than was expected.

    Nor must the compiler count as training in the time left.
    """
    handlers, prepared, loaded, loaded_late, compiled = [], set(), set(), [], []
    prepare, load, run_until = CpuBackend.prepare, CpuBackend._load_library, Trainer.run_until

    def prepare_and_tell(self, units):
        prepared.update(_keys(units))
        wait = prepare(self, units)

        def wait_and_tell():
            wait()
            handlers.append(signal.getsignal(signal.SIGINT))

        return wait_and_tell

    def load_and_tell(self, file, defines):
        loaded.update(_keys([(file, defines)]))
        loaded_late.extend([file] if handlers else [])
        return load(self, file, defines)

    def run_and_tell(self, *arguments):
        compiled.append(len(handlers))
        run_until(self, *arguments)

    monkeypatch.setattr(Trainer, "run_until", run_and_tell)
    monkeypatch.setattr(device, "default_batch", lambda config, steps, num_views: 4)
    monkeypatch.setattr(CpuBackend, "prepare", prepare_and_tell)
    monkeypatch.setattr(CpuBackend, "_load_library", load_and_tell)
    training.new(tmp_path / "run", steps=30, report=False)
    assert set(compiled) == {1}
    assert handlers == [signal.getsignal(signal.SIGINT)]  # prepared before deferred_interrupt replaces it
    assert loaded_late == []
    assert loaded <= prepared


def test_deterministic_sums_have_their_own_kernels_on_cuda():
    units = _keys(kernels_of_run(load_config(None, {"deterministic": True, "free_space": 0.1}), "cuda"))
    files = "raster/blend_backward", "raster/blend_scores", "optim/free_space"
    assert {("raster/fixed_to_float",), *((file, ("FIXED_SUMS", 1)) for file in files)} <= units
    assert ("raster/fixed_to_float",) not in _keys(kernels_of_run(load_config(None), "cuda"))


def test_runs_from_splats_need_no_points():
    files = {file for file, _ in kernels_of_run(load_config(None, {"init_from": "splats.ply"}), "cpu")}
    assert not files & {"knn", "image/plane_sweep"}


def test_kernels_are_prepared_by_the_backend():
    class Backend:
        name = "cpu"

        def prepare(self, units):
            self.units = units
            return "wait"

    assert prepare_kernels(backend := Backend(), config := load_config(None)) == "wait"
    assert backend.units == kernels_of_run(config, "cpu")


def test_other_ranks_compile_the_kernels_of_the_batch_that_rank_0_chose(monkeypatch):
    requested, prepared = load_config(None, {"gpus": 2}), []

    class Messages:
        """From rank 0: settings and device, then those of the plan."""

        rank, size = 1, 2
        content = iter([(requested, "cpu"), ("train", dataclasses.replace(requested, batch=8), [], None, None)])

        def next_message(self):
            return next(self.content)

    monkeypatch.setattr(follower, "make_ranks", lambda channel, *_: channel)
    monkeypatch.setattr(follower, "prepare_kernels", lambda backend, config: prepared.append(config.batch))
    monkeypatch.setattr(follower, "own_views", lambda *_: 1 / 0)  # photographs come later
    with pytest.raises(ZeroDivisionError):
        follower._follow(Messages(), [])
    assert prepared == [None, 8]


def warning_for(width, height, num_cores, **settings):
    views = [dataclasses.replace(view, width=width, height=height) for view in ring_of_views(200)]
    config = resolve_plan(TrainConfig(**settings), views).config
    return duration_warning(config, views, config.steps, num_cores)


def test_a_small_scene_gets_no_warning():
    assert warning_for(192, 144, 2, steps=1500) is None


@pytest.mark.parametrize(("width", "height", "num_cores"), [(800, 533, 2), (1600, 1200, 8), (4000, 3000, 2)])
def test_advice_ends_in_minutes(width, height, num_cores):
    text = warning_for(width, height, num_cores)
    assert re.match(rf"training on the CPU \({num_cores} cores\) will take about \d+ hours?; ", text)
    advice = re.search(r"--downscale (\d) --steps (\d+) would take about (\d+) minutes", text)
    downscale, steps, minutes = map(int, advice.groups())
    assert minutes <= 20
    assert warning_for(width // downscale, height // downscale, num_cores, steps=steps) is None


def test_the_warning_comes_before_training(splat, scene, monkeypatch):
    monkeypatch.setattr(device, "SECONDS_PER_PIXEL", 100.0)
    shown = splat("train", scene, "--device", "cpu", "--steps", 2, "--no-report").err
    assert shown.index("Warning: training on the CPU") < shown.index("step 2/2")

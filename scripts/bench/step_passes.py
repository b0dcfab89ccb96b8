"""The passes of a training step, and times of their replays: for the other benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.model.model import zero_moments
from splat_cli.render.blend import blend, blend_backward
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import RasterizationSettings, Update, project
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.run.plan import resolve_plan
from splat_cli.scene.extent import scene_size
from splat_cli.scene.view import View
from splat_cli.train.schedule import set_position_rates, upload_schedule

MAX_REPEATS = 60
MAX_SECONDS = 1.5  # per measured prefix


@dataclass
class Bench:
    """The parts of a step: `passes` in order, and facts about the scene for counting bytes."""

    backend: Backend
    splats: Splats
    raster: Rasterizer
    state: IterState
    passes: list[tuple[str, Callable[[], None]]]


def make_bench(backend: Backend, arrays: SplatArrays, views: list[View], antialias: bool = False) -> Bench:
    """The passes of a step that changes no splat, with buffers for the view that needs the most pairs."""
    rng, splats = np.random.default_rng(0), Splats.from_arrays(backend, arrays)
    asked = TrainConfig(
        lr_means=0.0,
        lr_means_final=0.0,
        lr_sh0=0.0,
        lr_shN=0.0,
        lr_opacities=0.0,
        lr_scales=0.0,
        lr_quats=0.0,
        sh_degree=splats.sh_degree,
        sh_degree_interval=1,
        steps=len(views),
    )
    frozen = resolve_plan(asked, views).config
    photos = [backend.upload(rng.integers(0, 255, (v.height, v.width, 3)).astype(np.uint8)) for v in views]
    cameras = CameraTable(backend, views, photos)
    settings = RasterizationSettings(training=True, antialias=antialias, matrix_sums=True)  # as in training
    raster = Rasterizer(backend, cameras, splats.capacity, settings, pair_capacity=1 << 20)
    state = IterState(backend, num_splats=splats.num)
    schedule = upload_schedule(backend, frozen)
    set_position_rates(backend, schedule, frozen, scene_size(views, arrays.means))
    order = backend.upload(np.arange(len(views), dtype=np.int32))
    loss = PhotometricLoss(backend, cameras, frozen.ssim_weight)
    update = Update(zero_moments(splats))
    state.write(step=10 * len(views))  # after the schedule of SH degrees
    fit_pairs(raster, splats, state, len(views))
    p, pic = raster.projection, raster.rendered
    passes: list[tuple[str, Callable[[], None]]] = [
        (
            "begin_step",
            lambda: backend.kernel("optim/begin_step", "begin_step")((1,), (1,), state.array, schedule, order),
        ),
        ("project", lambda: project(splats, cameras, state, antialias, p)),
        ("tiles", lambda: raster.tiles.build(cameras, state, p)),
        ("blend", lambda: blend(cameras, state, p, raster.tiles, pic)),
        ("l1_ssim", lambda: loss.forward(state, pic.image)),
        ("l1_ssim_backward", lambda: loss.backward(state, pic.image, pic.d_image)),
        ("blend_backward", lambda: blend_backward(cameras, state, p, raster.tiles, pic, False, settings.matrix_sums)),
        ("project_backward+adam", lambda: raster.update(splats, state, update)),
    ]
    return Bench(backend, splats, raster, state, passes)


def fit_pairs(raster: Rasterizer, splats: Splats, state: IterState, num_views: int) -> None:
    """Resize the buffers of pairs to the view that needs the most."""
    while True:
        worst = 0
        for index in range(num_views):
            state.clear_counts()
            state.write(view=index, overflowed=0, sh_degree=splats.sh_degree)
            raster.forward(splats, state)
            worst = max(worst, int(state.read()["needed_pairs"]))
        if worst <= raster.tiles.pair_capacity:
            return
        raster.resize_pairs(int(worst * 1.05))


def run_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        function()


def time_replay(
    backend: Backend, function: Callable[[], None], group: int, max_seconds: float = MAX_SECONDS
) -> list[float]:
    """Milliseconds of one call, measured over groups of `group` replays (one for each view)."""
    function()
    replay = backend.capture_graph(function)
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < MAX_REPEATS and (time.perf_counter() - begin < max_seconds or len(times) < 3):
        with backend.timer() as timer:
            for _ in range(group):
                replay()
        times.append(timer.ms / group)
    return times

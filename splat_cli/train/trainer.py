"""The training loop: one recorded step, replayed; between replays the host only looks and lets density control work."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.console import Progress
from splat_cli.data.image_streamer import ImageBudget, make_camera_table
from splat_cli.density import make_strategy
from splat_cli.device import Backend
from splat_cli.gaussians.splats import LOG_SCALES, Splats
from splat_cli.optim.model import Model
from splat_cli.optim.noise import langevin_noise
from splat_cli.optim.smoothing import update_filters
from splat_cli.phase_timer import PhaseTimer
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import Update
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.extent import REFERENCE_SIZE, scene_extent, scene_size
from splat_cli.scene.view import View
from splat_cli.train.auxiliary import AuxiliaryModels
from splat_cli.train.initialization import starting_splats, with_budget
from splat_cli.train.memory_recovery import recover_from_oom
from splat_cli.train.schedule import dropout_share, set_position_rates, upload_schedule, view_order
from splat_cli.train.step_loop import StepLoop
from splat_cli.train.view_scores import ViewScorer

SYNC_SECONDS = 0.2  # between two looks at the device's state
SORT_INTERVAL = 1000  # steps, about, between two spatial sorts
PAIRS_PER_SPLAT = 12  # first guess
THINNEST = 1e-5  # of the scene's size: no gradient ends what makes a disc thinner, and nobody sees it


class Trainer:
    """Trains splats on photographs. `run_until` may be called again and again; `step` counts the steps done.

    views, images and masks, if any, belong together; images are uint8 [H, W, 3], masks uint8 [H, W], 0 where a pixel
    does not count, or None; all are on the device, or with `room` as many at a time as it says. points float32 [P, 3]
    and colors uint8 [P, 3] are where the splats start; without points, from config.init_from. scene_points [P, 3] are
    what --depth-weight goes by. pose_offsets float32 [V, 6]: where --pose-opt starts. `notices` are lines for the user
    about what went wrong and was put right; whoever shows them takes them away.
    """

    def __init__(
        self,
        backend: Backend,
        views: Sequence[View],
        images: Sequence[np.ndarray],
        points: np.ndarray,
        colors: np.ndarray,
        config: TrainConfig,
        masks: Sequence[np.ndarray | None] = (),
        timer: PhaseTimer | None = None,
        budget: ImageBudget | None = None,
        scene_points: np.ndarray | None = None,
        pose_offsets: np.ndarray | None = None,
    ) -> None:
        config = with_budget(config, views)
        self.backend, self.config = backend, config
        self.timer = timer or PhaseTimer("training")
        self.random = np.random.default_rng(config.seed)
        self.extent = scene_extent(views)
        arrays, self.notices = starting_splats(backend, points, colors, config, self.random)
        self.model = Model(
            backend, arrays, capacity=min(2 * len(arrays), config.max_splats), smooth=config.smooth_3d > 0
        )
        self.strategy = make_strategy(config, self.extent)
        order = view_order(len(views), config.steps, config.seed)
        self.cameras, self.stream = make_camera_table(backend, views, images, masks, order, budget)
        self.dropout = dropout_share(config, len(views))
        self.schedule = upload_schedule(backend, config, len(views))
        self.set_size(scene_size(views, arrays.means))
        self.auxiliary = AuxiliaryModels(
            backend, self.cameras, config, self.schedule, self.extent, self.model.splats, scene_points
        )
        if self.auxiliary.poses and pose_offsets is not None:
            self.auxiliary.poses.start_from(pose_offsets)
        self.rasterizer = Rasterizer(
            backend, self.cameras, self.model.splats.capacity, PAIRS_PER_SPLAT * self.model.splats.capacity,
            training=True, antialias=config.antialias, deterministic=config.deterministic and backend.name == "cuda",
            coloring=self.auxiliary.coloring,
        )  # fmt: skip
        self.loss = self.auxiliary.loss
        self.state = IterState(backend, num_splats=self.model.num)
        self.order = backend.upload(order)
        looks = (self.stream.show,) if self.stream else ()
        self.scorer = ViewScorer(self.rasterizer, self.loss, self.model, self.state, self.random, *looks)
        self.removed = 0
        self.loop = StepLoop(self.launch_step, self.state, self.rasterizer, self.stream, self.timer)
        self._update_constraints()

    @property
    def bad_numbers(self) -> dict[str, int]:
        """What was not finite so far: updates of splats and steps that were skipped, splats that were removed."""
        state = self.state.read()
        return {
            "skipped_updates": int(state["skipped_updates"]), "skipped_steps": int(state["skipped_steps"]),
            "removed_splats": self.removed,
        }  # fmt: skip

    @property
    def splats(self) -> Splats:
        return self.model.splats

    @property
    def step(self) -> int:
        """Steps done."""
        return self.loop.step

    def run_until(self, step: int, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Train until `step` steps are done in all; reports a few times a second."""
        chunk = 1
        while self.step < step:
            begin = time.perf_counter()
            try:
                self.loop.run_until(min(step, self.step + chunk, self._next_refinement()))
                if self.strategy.due(self.step) and self.step < self.config.steps:
                    with self.timer("density control"):
                        self._refine()
                self._update_constraints()
            except MemoryError:
                self.notices.append(recover_from_oom(self))
                self.loop.sync()
            seconds = time.perf_counter() - begin
            chunk = max(1, min(100, int(chunk * SYNC_SECONDS / max(seconds, 1e-6)) + 1))
            if on_progress:
                last = self.loop.last
                on_progress(Progress(self.step, float(last["loss"]), self.model.num, float(last["psnr"])))

    def cap_splats(self, limit: int) -> None:
        """No more splats than `limit` from now on."""
        self.config = dataclasses.replace(self.config, max_splats=limit)
        self.strategy = make_strategy(self.config, self.extent)

    def set_size(self, size: float) -> None:
        """From the next recording on, rates of positions and what else depends on it follow a size, in world units."""
        self.size, self.unit = size, size / REFERENCE_SIZE
        set_position_rates(self.backend, self.schedule, self.config, size)

    def launch_step(self) -> None:
        """Queue one training step: what a replay repeats. Reads and writes device memory only."""
        update = self._update()
        self.backend.kernel("optim/begin_step", "begin_step")((1,), (1,), self.state.array, self.schedule, self.order)
        self.rasterizer.forward(self.splats, self.state, self.dropout)
        picture = self.rasterizer.picture
        self.loss.forward(self.state, picture.image)
        self.loss.backward(self.state, picture.image, picture.d_image)
        gradients = functools.partial(self.auxiliary.backward, self.splats, self.state, self.rasterizer)
        self.rasterizer.backward(self.splats, self.state, update, gradients)
        self.auxiliary.step(self.state)
        if self.strategy.noise_scale > 0:
            noise_scale = self.strategy.noise_scale / self.unit**2  # per covariance
            langevin_noise(self.splats, self.state, self.config.seed, noise_scale)

    def _update(self) -> Update:
        c = self.config
        return Update(
            moments1=self.model.moments.first, moments2=self.model.moments.second,
            stats=self.model.stats if self.strategy.collects_stats else None,
            dense=c.optimizer == "dense", absgrad=c.absgrad and self.strategy.collects_stats,
            opacity_reg=c.opacity_reg, scale_reg=c.scale_reg / self.unit,
            d_means=self.auxiliary.d_means(self.splats.capacity),
        )  # fmt: skip

    def _next_refinement(self) -> int:
        step = self.step + 1
        while step % self.config.densify_interval and not self.strategy.due(step):
            step += 1
        return step

    def _refine(self) -> None:
        capacity = self.splats.capacity
        self.removed += self.model.remove_nonfinite()
        self.state.write(num_splats=self.model.num)
        self.strategy.refine(self.step, self.model, self.scorer, self.random)
        if self.step % SORT_INTERVAL < self.config.densify_interval:
            self.model.sort_spatially()
        if self.splats.capacity != capacity:
            self.rasterizer.resize_splats(self.splats.capacity)
        self.state.write(num_splats=self.model.num)

    def _update_constraints(self) -> None:
        """Now and then, after every round of density control too: what follows all splats or all views."""
        if self.step % self.config.densify_interval:
            return
        log_scales = self.splats.params[LOG_SCALES, : self.model.num]
        self.backend.xp.maximum(log_scales, np.float32(np.log(THINNEST * self.size)), out=log_scales)
        if self.config.smooth_3d > 0:
            update_filters(self.splats, self.cameras, self.config.smooth_3d)
        if self.auxiliary.exposure:
            self.auxiliary.exposure.center()

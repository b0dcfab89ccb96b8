"""Training loop. A batch (step.py) is captured as a CUDA graph and replayed; between replays the host polls progress
and runs density control."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.data.image_budget import ImageBudget
from splat_cli.data.training_images import TrainingImages, downscale_at, view_order
from splat_cli.density import make_strategy
from splat_cli.density.operations import limit_scales
from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.arrays import SplatArrays, zero_splats
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.joint_model import JointInputs
from splat_cli.model.model import RowsOnDevice
from splat_cli.render.images import background_color
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import update_smooth_3d_sigmas
from splat_cli.scene.extent import scene_extent, scene_size
from splat_cli.scene.images.image_set import ImageSet, mean_color
from splat_cli.scene.points.observations import Observations
from splat_cli.scene.poses import views_following
from splat_cli.scene.view import View
from splat_cli.terminal.console import Progress
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.allocation import (
    PAIRS_PER_SPLAT,
    initial_capacity,
    initial_pairs,
    make_model,
    make_rasterizer,
)
from splat_cli.train.density_control import DensityControl
from splat_cli.train.joint_models import JointModels
from splat_cli.train.memory_recovery import ScratchMemory, keep_most_opaque
from splat_cli.train.schedule import background_of, set_position_rates, upload_schedule
from splat_cli.train.sharding import Sharding, Unsharded
from splat_cli.train.step import BatchStep, StepLoop

SYNC_SECONDS = 0.2  # between two reads of the iteration state
MIN_SCALE = 1e-5  # relative to the scene's size: thinner discs render alike, and no gradient limits them

T = TypeVar("T")


@dataclass(frozen=True)
class TrainingInputs:
    """Photographs of the training views, points of the scene, and initial offsets of poses.

    images: all on the device, or streamed if `budget` is given. points: float32 [P, 3] of the scene, world units, or
    what the views see of them, for --depth-weight and --free-space, or None. pose_offsets: float32 [V, 6, 9 or 11],
    initial offsets of --pose-opt, as for `moved_views`, or None.
    """

    images: ImageSet
    budget: ImageBudget | None = None
    points: np.ndarray | Observations | None = None
    pose_offsets: np.ndarray | None = None


class Trainer:
    """Trains splats on images; `run_until` may be called repeatedly, `step` is the number of steps done.

    splats: initial splats, at most config.max_splats, of SH degree config.trained_sh_degree or less. frozen: splats,
    also with at most this SH degree, that are rendered and never changed; they come first and do not count towards
    max_splats. rng: generator of density control; by default seeded with config.seed. sharding: with several ranks.
    on_device: rows of splats and moments that are not in host memory, or None for all. branches: see `make_rasterizer`.
    `notices`: warnings for the user; the caller drains this list.
    """

    def __init__(
        self,
        backend: Backend,
        config: ResolvedConfig,
        splats: SplatArrays,
        inputs: TrainingInputs,
        *,
        frozen: SplatArrays | None = None,
        rng: np.random.Generator | None = None,
        timer: PhaseTimer | None = None,
        sharding: Sharding | None = None,
        on_device: RowsOnDevice | None = None,
        branches: int | None = None,
    ) -> None:
        images, self.sharding = inputs.images, sharding or Unsharded()
        self.backend, self.config, self.notices = backend, config, list[str]()
        self.timer = timer or PhaseTimer("training")
        self.extent = scene_extent(images.views)
        initial = splats if self.sharding.share.num_ranks == 1 else zero_splats(1, 0)  # until `_start`
        self.model = make_model(backend, config, initial, frozen, on_device)
        order = view_order(len(images.views), config.steps, config.seed, config.batch_size)
        self.images = TrainingImages(
            backend, images, order, inputs.budget, downscale_at(config, 0), config.batch_size, self.sharding.share
        )
        self.cameras = self.images.cameras
        self.schedule = upload_schedule(backend, config)
        self.joint = JointModels(self._joint_inputs(inputs))
        self.rasterizer = make_rasterizer(config, self.cameras, self.model, self.joint, branches)
        self.loss = self.joint.loss
        self.state = IterState(backend, num_splats=self.model.num, num_frozen=self.model.num_frozen)
        strategy = make_strategy(config, self.extent)
        self.batch_step = BatchStep(
            config, self.model, self.rasterizer, self.joint, self.state, strategy, self.schedule, backend.upload(order)
        )
        rng = rng or np.random.default_rng(config.seed)
        self.loop = StepLoop(self.batch_step, self.sharding.connect(self.batch_step), self.images.stream, self.timer)
        self.scorer = self.sharding.scorer(self.batch_step, self.images, rng)
        self.scratch = ScratchMemory(self.batch_step, self.scorer, self.sharding)
        self.density = DensityControl(self.batch_step, self.extent, self.scorer, self.scratch, rng, self.sharding)
        self._gathered: Splats | None = None  # splats of all ranks on this device, until the next change
        self._to_load: Mapping[str, Any] = {}  # on rank 0, during `load_planes`
        self.set_size(scene_size(images.views, splats.means))
        if self.sharding.share.rank == 0:  # the others execute what it sends
            self._start(splats)

    def _joint_inputs(self, inputs: TrainingInputs) -> JointInputs:
        scene = inputs.points, inputs.pose_offsets, inputs.images.depth_maps
        background = background_of(self.schedule)
        return JointInputs(self.backend, self.cameras, self.config, background, self.extent, self.model.splats, *scene)

    def _start(self, splats: SplatArrays) -> None:
        """Give each of several ranks its initial splats, and constrain the splats."""
        if self.sharding.share.num_ranks > 1:
            self.load_planes({"params": splats.parameter_rows()}, initial_capacity(self.config, len(splats)), 0)
        self._together("constrain")

    @property
    def nonfinite_counts(self) -> dict[str, int]:
        """Counts of non-finite numbers: skipped updates of splats, skipped steps, removed splats."""
        return {
            "skipped_updates": self._together("count_skipped_updates"),
            "skipped_steps": int(self.state.read()["skipped_steps"]),
            "removed_splats": self.density.num_removed,
        }

    @property
    def num_splats(self) -> int:
        """Number of splats, frozen ones included."""
        return self.sharding.num_splats

    @property
    def splats(self) -> Splats:
        """The splats. With several ranks, they are gathered on this device until the next step."""
        if self._gathered is None:
            if self.step >= self.config.steps and self.sharding.share.num_ranks > 1:
                self.scratch.release()  # no longer needed
            self._gathered = self.run_with_memory_fallback(lambda: self._together("sharding.splats"))
        return self._gathered

    @property
    def capacity(self) -> int:
        """Number of splats for which there is room."""
        return self.sharding.capacity

    @property
    def background(self) -> tuple[float, float, float]:
        """Background colour of renders, RGB, 0 to 1: learned, or from the settings.

        After training on random ones it shows only where no photograph does: the mean colour is the best guess there.
        """
        if self.config.background == "random":
            return self._mean_color
        return self.joint.background_color() or background_color(self.config.background)

    @functools.cached_property
    def _mean_color(self) -> tuple[float, float, float]:
        return mean_color(self.images.images)

    @property
    def step(self) -> int:
        """Number of steps done."""
        return self.loop.step

    def refined_views(self, views: Sequence[View]) -> list[View]:
        """`views` at refined poses and intrinsics; without --pose-opt, `views` unchanged."""
        refined = self.joint.refined_views()
        return list(views) if refined is None else views_following(views, self.cameras.views, refined)

    def run_until(self, step: int, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Train up to step `step`, counted from the start of the run; calls `on_progress` a few times a second."""
        chunk = 1
        while self.step < step:
            begin = time.perf_counter()
            try:
                self._together("advance", self.density.next_pause(self.step, min(step, self.step + chunk)))
                if self.density.due(self.step):
                    with self.timer("density control"):
                        random = self.density.rng.bit_generator.state  # only rank 0 makes initial splats and resumes
                        self._together("density.refine", self.step, self.density.sorts(self.step), random)
                if self.step % self.config.densify_interval == 0:
                    self._together("constrain")
                if self.step >= self.config.steps:
                    self._together("density.remove_unseen", self.step)
                self.set_resolution()
            except MemoryError:
                self.recover_from_oom()
            seconds = time.perf_counter() - begin
            chunk = max(1, min(100, int(chunk * SYNC_SECONDS / max(seconds, 1e-6)) + 1))
            if on_progress:
                last = self.loop.last
                on_progress(Progress(self.step, float(last["loss"]), self.num_splats, float(last["psnr"])))

    def load_planes(self, planes: Mapping[str, Any], capacity: int, step: int) -> None:
        """On rank 0: replace all splats, moments and statistics after step `step`, with room for `capacity` splats.

        planes: see Sharding.load.
        """
        self._to_load = planes
        rows = [(name, row) for name, found in planes.items() for row in range(len(found))]
        self._together("receive_planes", rows, len(planes["params"][0]), capacity, step, self.size)

    def copied_planes(self) -> dict[str, DeviceArray]:
        """Copies of all splats, moments and statistics, see Sharding.copies."""
        planes: dict[str, DeviceArray] = self._together("sharding.copies")
        return planes

    def recover_from_oom(self) -> None:
        """Render one view at a time or, if that is not enough, prune splats until training fits into memory.

        Their number is then the maximum. OutOfMemory if pruning does not help. With several ranks, memory may have run
        out on any of them; no rank executes a step.
        """
        self.sharding.check()
        step = self.step - self.step % self.config.batch_size
        fit = functools.partial(self._together, "fit", step)
        if self.scratch.leave_branches(fit):
            self.notices.append(f"out of device memory at step {step}: continuing with one view at a time")
            return
        self.notices.append(self.scratch.recover(step, fit, functools.partial(self._together, "prune")))
        self._together("limit", self.num_splats - self.model.num_frozen)

    def run_with_memory_fallback(self, work: Callable[[], T]) -> T:
        """The result of `work`, which allocates device memory between two steps.

        If that fails, the scratch memory of training is released and `work` repeated.
        """
        try:
            return self.scratch.run_or_release(work)
        finally:
            if not self.scratch.allocated and self.step < self.config.steps:
                self.recover_from_oom()

    def set_size(self, size: float) -> None:
        """Scale learning rates and regularisers to a scene of `size` world units, from the next graph capture on."""
        self.batch_step.size = size
        set_position_rates(self.backend, self.schedule, self.config, size)

    @property
    def size(self) -> float:
        """Size of the scene, see `set_size`."""
        return self.batch_step.size

    def clear_stats(self, step: int) -> None:
        """Clear the statistics of all splats after step `step`."""
        self._together("density.clear_stats", step)

    def _together(self, name: str, *arguments: Any) -> Any:
        """On rank 0: call this method of the trainers of all ranks, or of a part; returns the result of this rank."""
        return self.sharding.together(self, name, *arguments)

    # All ranks execute the following methods at the same time: `_together` calls them.

    def advance(self, step: int) -> None:
        """Train up to step `step`."""
        self._gathered = None
        self.set_resolution()
        with self.sharding.steps():
            self.loop.run_until(step)

    def receive_planes(self, rows: list[tuple[str, int]], num: int, capacity: int, step: int, size: float) -> None:
        """Replace `num` splats by those of `load_planes` on rank 0, in a scene of this size."""
        planes, self._to_load, self._gathered = self._to_load, {}, None
        self.set_size(size)
        self.sharding.load(planes, rows, num, capacity)
        with self.sharding.all_or_none():
            self.scratch.resize_splats(self.capacity)
            if self.sharding.share.num_ranks > 1:  # the lists of tiles belong to placeholders
                self.rasterizer.resize_pairs(initial_pairs(self.capacity, PAIRS_PER_SPLAT))
        self.state.write(step=step, num_splats=num, overflowed=0, skipped_updates=0)
        self.loop.sync()

    def constrain(self) -> None:
        """Apply the constraints of `densify_interval`: lower limit of scales, --smooth-3d, those of joint models."""
        self.set_resolution()
        limit_scales(self.model, MIN_SCALE * self.size)
        if self.config.smooth_3d > 0:
            update_smooth_3d_sigmas(self.model.splats, self.cameras, self.config.smooth_3d)
        self.joint.constrain()

    def count_skipped_updates(self) -> int:
        """Number of updates of single splats that were skipped on any rank because of a non-finite gradient."""
        return self.sharding.total(int(self.state.read()["skipped_updates"]))

    def fit(self, step: int, scale: float) -> None:
        """Allocate all buffers of training again, with `scale` times the pairs needed; step `step` can be repeated."""
        with self.sharding.all_or_none():
            self.scratch.reallocate(scale)
            self.sharding.allocate()
        self.state.write(step=step, num_splats=self.num_splats, overflowed=0)
        self.loop.sync()

    def prune(self, num: int) -> None:
        """Remove all but the `num` most opaque splats, after the buffers of training are released."""
        self.scratch.release()
        with self.sharding.geometry() as model:
            keep_most_opaque(model, num)

    def limit(self, max_splats: int) -> None:
        """Lower the maximum number of splats."""
        self.density.limit(max_splats)
        self.config = self.density.config

    def set_resolution(self) -> None:
        """Show photographs at the resolution of the next step; it changes at multiples of densify_interval only."""
        if self.images.set_downscale(downscale_at(self.config, self.step)):
            self.joint.set_views(self.cameras.current_views)
            self.rasterizer.generation += 1  # graphs of the other resolution are out of date

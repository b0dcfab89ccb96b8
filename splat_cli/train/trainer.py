"""Training loop. A batch (step.py) is captured as a CUDA graph and replayed; between replays the host polls progress
and runs density control."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.data.training_images import TrainingImages, downscale_at
from splat_cli.data.view_order import view_order
from splat_cli.density import make_strategy
from splat_cli.density.operations import limit_scales
from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.joint_model import TrainingSetup
from splat_cli.model.model import RowsOnDevice
from splat_cli.model.smooth_3d import update_smooth_3d_sigmas
from splat_cli.ranks.share import WHOLE, Share
from splat_cli.render.images import background_color
from splat_cli.render.iter_state import IterState
from splat_cli.scene.extent import scene_extent, scene_size
from splat_cli.terminal.console import Progress
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.buffers import make_model, make_rasterizer
from splat_cli.train.density_control import DensityControl
from splat_cli.train.joint_models import JointModels
from splat_cli.train.memory_recovery import ScratchMemory
from splat_cli.train.schedule import background_of, set_position_rates, upload_schedule
from splat_cli.train.step import BatchStep, CapturedGraph, StepLoop
from splat_cli.train.training_inputs import TrainingInputs
from splat_cli.train.view_scores import LocalViews, ViewScorer

SYNC_SECONDS = 0.2  # between two reads of the iteration state
MIN_SCALE = 1e-5  # relative to the scene's size: thinner discs render alike, and no gradient limits them

T = TypeVar("T")


class Sharding(Protocol):
    """Division of training among ranks: the steps that a trainer does together with the others.

    share: the splats and photographs of this rank.
    """

    share: Share

    def connect(
        self, step: BatchStep, images: TrainingImages, timer: PhaseTimer, rng: np.random.Generator
    ) -> tuple[ViewScorer, StepLoop]:
        """Scorer and loop of a trainer with these parts; called once, before the methods below."""

    def run_until(self, step: int) -> None:
        """Run the loop up to step `step`, on all ranks."""

    def check(self) -> None:
        """RankError if a rank is lost."""

    def collect(self) -> None:
        """Update the splats, moments and statistics that other ranks train."""

    def begin_round(self, num_score_views: int) -> None:
        """Before density control: collect, and meanwhile score this many views."""

    def replaced(self, changed: Sequence[DeviceArray] | None) -> None:
        """Called after density control or a checkpoint changed splats, at the indices `changed`; None: any splats."""

    def begin_constraints(self) -> None:
        """Before constraints of the splats, which every rank applies to its share."""

    def fit(self) -> None:
        """MemoryError if the splats do not fit on other ranks."""


class Unsharded:
    """The sharding of a single GPU, which trains all splats and needs no communication."""

    share = WHOLE

    def connect(
        self, step: BatchStep, images: TrainingImages, timer: PhaseTimer, rng: np.random.Generator
    ) -> tuple[ViewScorer, StepLoop]:
        """See Sharding.connect."""
        graph = CapturedGraph(step.rasterizer, step.launch)
        self._loop = StepLoop(graph, step.state, step.rasterizer, images.stream, timer, step.batch, step.launch)
        return ViewScorer(step, LocalViews(step, images), rng), self._loop

    def run_until(self, step: int) -> None:
        """See Sharding.run_until."""
        self._loop.run_until(step)

    def check(self) -> None:
        """See Sharding.check."""

    def collect(self) -> None:
        """See Sharding.collect."""

    def begin_round(self, num_score_views: int) -> None:
        """See Sharding.begin_round."""

    def replaced(self, changed: Sequence[DeviceArray] | None) -> None:
        """See Sharding.replaced."""

    def begin_constraints(self) -> None:
        """See Sharding.begin_constraints."""

    def fit(self) -> None:
        """See Sharding.fit."""


class Trainer:
    """Trains splats on images; `run_until` may be called repeatedly, `step` is the number of steps done.

    splats: initial splats, at most config.max_splats, of SH degree config.trained_sh_degree or less. frozen: splats,
    also with at most this SH degree, that are rendered and never changed; they come first and do not count towards
    max_splats. rng: generator of density control; by default seeded with config.seed. sharding: with several ranks.
    on_device: rows of splats and moments that are not in host memory, or None for all.
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
    ) -> None:
        images, self.sharding = inputs.images, sharding or Unsharded()
        self.backend, self.config, self.notices = backend, config, list[str]()
        self.timer = timer or PhaseTimer("training")
        self.extent = scene_extent(images.views)
        self.model = make_model(backend, config, splats, frozen, on_device)
        order = view_order(len(images.views), config.steps, config.seed, config.batch_size)
        self.images = TrainingImages(
            backend, images, order, inputs.budget, downscale_at(config, 0), config.batch_size, self.sharding.share
        )
        self.cameras = self.images.cameras
        self.schedule = upload_schedule(backend, config)
        self.joint = JointModels(
            TrainingSetup(
                backend,
                self.cameras,
                config,
                background_of(self.schedule),
                self.extent,
                self.model.splats,
                inputs.points,
                inputs.pose_offsets,
                images.depth_maps,
            )
        )
        self.rasterizer = make_rasterizer(config, self.cameras, self.model, self.joint)
        self.loss = self.joint.loss
        self.state = IterState(backend, num_splats=self.model.num, num_frozen=self.model.num_frozen)
        strategy = make_strategy(config, self.extent)
        self.batch_step = BatchStep(
            config, self.model, self.rasterizer, self.joint, self.state, strategy, self.schedule, backend.upload(order)
        )
        rng = rng or np.random.default_rng(config.seed)
        self.scorer, self.loop = self.sharding.connect(self.batch_step, self.images, self.timer, rng)
        self.scratch = ScratchMemory(self.model, self.rasterizer, self.joint, self.scorer, self.state)
        self.density = DensityControl(config, self.extent, self.model, self.scorer, self.scratch, self.state, rng)
        self.set_size(scene_size(images.views, splats.means))
        self.constrain()

    @property
    def nonfinite_counts(self) -> dict[str, int]:
        """Counts of non-finite numbers: skipped updates of splats, skipped steps, removed splats."""
        state = self.state.read()
        return {
            "skipped_updates": int(state["skipped_updates"]),
            "skipped_steps": int(state["skipped_steps"]),
            "removed_splats": self.density.num_removed,
        }

    @property
    def splats(self) -> Splats:
        return self.model.splats

    @property
    def background(self) -> tuple[float, float, float]:
        """Background colour, learned or from the settings; RGB, 0 to 1."""
        return self.joint.background_color() or background_color(self.config.background)

    @property
    def step(self) -> int:
        """Number of steps done."""
        return self.loop.step

    def run_until(self, step: int, on_progress: Callable[[Progress], None] | None = None) -> None:
        """Train up to step `step`, counted from the start of the run; calls `on_progress` a few times a second."""
        chunk = 1
        while self.step < step:
            begin = time.perf_counter()
            try:
                self.set_resolution()
                self.sharding.run_until(min(step, self.step + chunk, self.density.next_pause(self.step)))
                if self.density.due(self.step):
                    with self.timer("density control"):
                        self.sharding.begin_round(self.density.strategy.num_score_views)
                        self.sharding.replaced(self.density.refine(self.step))
                self.set_resolution()
                self.constrain()
                if self.step >= self.config.steps:
                    self._remove_unseen()
            except MemoryError:
                self.recover_from_oom()
                self.loop.sync()
            seconds = time.perf_counter() - begin
            chunk = max(1, min(100, int(chunk * SYNC_SECONDS / max(seconds, 1e-6)) + 1))
            if on_progress:
                last = self.loop.last
                on_progress(Progress(self.step, float(last["loss"]), self.model.num, float(last["psnr"])))

    def collect(self) -> None:
        """Update the splats, moments and statistics that other ranks train; on one GPU, there are none."""
        self.sharding.collect()

    def load_planes(self, planes: dict[str, np.ndarray], capacity: int) -> None:
        """Replace all splats, moments and statistics, with room for `capacity` splats. See Model.load_planes."""
        self.model.load_planes(planes, capacity)
        self.scratch.resize_splats(capacity)
        self.sharding.replaced(None)

    def recover_from_oom(self) -> None:
        """Prune splats until training fits into memory; their number is the maximum from then on.

        OutOfMemory if pruning does not help. With several ranks, memory may have run out on any of them; no rank
        executes a step.
        """
        self.sharding.check()
        self.scratch.release()  # frees memory for collecting
        self.sharding.collect()
        step = self.step - self.step % self.config.batch_size
        self.notices.append(self.scratch.recover(step, self.sharding.fit))
        self.density.limit(self.model.num_trained)
        self.config = self.density.config

    def run_with_memory_fallback(self, work: Callable[[], T]) -> T:
        """The result of `work`, which allocates device memory between two steps.

        If that fails, the scratch memory of training is released and `work` repeated.
        """
        try:
            return self.scratch.run_or_release(work)
        finally:
            if not self.scratch.allocated:
                self.recover_from_oom()

    def set_size(self, size: float) -> None:
        """Scale learning rates and regularisers to a scene of `size` world units, from the next graph capture on."""
        self.batch_step.size = size
        set_position_rates(self.backend, self.schedule, self.config, size)

    @property
    def size(self) -> float:
        """Size of the scene, see `set_size`."""
        return self.batch_step.size

    def set_resolution(self) -> None:
        """Show photographs at the resolution of the next step; it changes at multiples of densify_interval only."""
        if self.images.set_downscale(downscale_at(self.config, self.step)):
            self.joint.set_views(self.cameras.current_views)
            self.rasterizer.generation += 1  # graphs of the other resolution are out of date

    def constrain(self) -> None:
        """Every `densify_interval` steps: lower limit of scales, --smooth-3d, constraints of joint models."""
        if self.step % self.config.densify_interval:
            return
        self.sharding.begin_constraints()
        limit_scales(self.model, MIN_SCALE * self.size)
        if self.config.smooth_3d > 0:
            update_smooth_3d_sigmas(self.splats, self.cameras, self.config.smooth_3d)
        self.joint.constrain()

    def _remove_unseen(self) -> None:
        """See DensityControl.remove_unseen."""
        self.sharding.begin_round(0)
        self.density.remove_unseen(self.step)
        self.sharding.replaced(None)

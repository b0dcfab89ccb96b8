"""Construction of trainers from a plan, inputs, and initial splats or points; number of splats that fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import OutOfMemory
from splat_cli.gaussians.arrays import SplatArrays, limit_sh_degree
from splat_cli.model.model import RowsOnDevice
from splat_cli.ranks.protocol import Ranks
from splat_cli.run.plan import RunPlan, resolve_plan
from splat_cli.run.setup.memory_plan import MemoryPlan, plan_memory
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.scene.points.initial_points import ANY_IN_VIEW, out_of_view
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.initial_splats import initial_splats
from splat_cli.train.multi_gpu.sharded import leading
from splat_cli.train.trainer import Trainer, TrainingInputs

Start = SplatArrays | tuple[np.ndarray, np.ndarray]
"""Splats, or points float32 [P, 3] with colours uint8 [P, 3], from which training starts."""


@dataclass(frozen=True)
class InitialState:
    """points: points with colours, or splats. frozen: splats that stay unchanged, with --frozen.

    pose_offsets: offsets from `align_poses`, with --pose-opt. surface: points float32 [P, 3] on surfaces, which end
    free space: the scene's, or, if it has none, some of the plane sweep; None: the scene's, if any.
    """

    points: Start
    pose_offsets: np.ndarray | None = None
    frozen: SplatArrays | None = None
    surface: np.ndarray | None = None

    @property
    def num_points(self) -> int:
        """Number of initial points or splats."""
        return len(self.points if isinstance(self.points, SplatArrays) else self.points[0])

    @property
    def num_frozen(self) -> int:
        return 0 if self.frozen is None else len(self.frozen)


def build_trainer(
    backend: Backend,
    plan: RunPlan | TrainConfig,
    inputs: TrainingInputs,
    start: Start,
    *,
    frozen: SplatArrays | None = None,
    timer: PhaseTimer | None = None,
    ranks: Ranks | None = None,
    origin: Iterable[float] = (0.0, 0.0, 0.0),
    on_device: RowsOnDevice | None = None,
    branches: int | None = None,
) -> Trainer:
    """A trainer that starts from splats or points.

    A TrainConfig is resolved for these inputs. Without points, splats are read from `init_from`.
    frozen: splats that stay unchanged, with at most the SH degree of training. ranks: with --gpus, led by this process.
    origin: the scene's origin, for splats of `init_from`. on_device, branches: see Trainer.

        trainer = build_trainer(open_backend(), TrainConfig(steps=500), TrainingInputs(images), (points, colors))
        trainer.run_until(500)
    """
    if isinstance(plan, TrainConfig):
        plan = _resolved(plan, inputs.images.views, start)
    rng = np.random.default_rng(plan.config.seed)
    splats, notices = _first_splats(backend, plan.config, inputs.images.views, start, rng, origin)
    sharding = None
    if ranks is not None and ranks.size > 1:
        sharding = leading(ranks, plan.config, inputs.images.views, inputs.budget, inputs.points)
    trainer = Trainer(
        backend,
        plan.config,
        splats,
        inputs,
        frozen=frozen,
        rng=rng,
        timer=timer,
        sharding=sharding,
        on_device=on_device,
        branches=branches,
    )
    trainer.notices += notices
    return trainer


def _resolved(config: TrainConfig, views: Sequence[View], start: Start) -> RunPlan:
    if isinstance(start, SplatArrays):
        return resolve_plan(config, views, start.means, from_splats=True)
    return resolve_plan(config, views, start[0])


def _first_splats(
    backend: Backend,
    config: ResolvedConfig,
    views: Sequence[View],
    start: Start,
    rng: np.random.Generator,
    origin: Iterable[float],
) -> tuple[SplatArrays, list[str]]:
    """Splats of step 0, and notices about them."""
    if isinstance(start, SplatArrays):
        return limit_sh_degree(start, config.trained_sh_degree), []
    splats, notices = initial_splats(backend, config, *start, rng, origin)
    if config.init_from and (apart := out_of_view(views, splats.means, "splats", ANY_IN_VIEW)):
        notices.append(f"{config.init_from}: {apart}")
    return splats, notices


def build_trainer_within_memory(
    backend: Backend,
    plan: RunPlan,
    data: TrainingData,
    start: InitialState,
    display: Display,
    timer: PhaseTimer,
    ranks: Ranks | None = None,
) -> Trainer:
    """`build_trainer`, limited to the splats that fit into device memory. OutOfMemory if these are too few."""
    images = data.training
    depth_bytes = images.depth_maps.num_bytes if images.depth_maps else 0

    def planned(plan: RunPlan) -> MemoryPlan:
        inputs = images.views, start.num_points, data.budget, start.num_frozen, depth_bytes
        return plan_memory(backend, plan.config, *inputs)

    memory = planned(plan)
    memory.check()
    display.say(memory.line())
    while not memory.fits:  # again: fewer splats may have two sets of buffers
        display.warn(f"only {memory.max_splats:,} splats fit; {memory.advice()}")
        plan = plan.with_max_splats(memory.max_splats)
        memory = planned(plan)
    try:
        surface = data.scene.points if start.surface is None else start.surface
        inputs = TrainingInputs(images, data.budget, surface, start.pose_offsets)
        return build_trainer(
            backend,
            plan,
            inputs,
            start.points,
            frozen=start.frozen,
            timer=timer,
            ranks=ranks,
            origin=data.scene.origin,
            on_device=memory.on_device,
            branches=memory.branches,
        )
    except MemoryError:
        raise OutOfMemory(f"{memory.line()} did not fit; {memory.advice()}") from None

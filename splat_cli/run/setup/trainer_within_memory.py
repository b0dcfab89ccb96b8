"""Trainers in the initial state of a run, limited to the splats that fit into memory.

Separate from build_trainer.py, which pose alignment also uses, to find the initial state.
"""

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import OutOfMemory
from splat_cli.ranks.protocol import Ranks
from splat_cli.run.plan import RunPlan
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.run.setup.initial_state import InitialState, find_initial_state
from splat_cli.run.setup.memory_plan import plan_memory
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.trainer import Trainer, TrainingInputs


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
    memory = plan_memory(
        backend, plan.config, images.views, start.num_points, data.budget, start.num_frozen, depth_bytes
    )
    memory.check()
    display.say(memory.line())
    if memory.max_splats < memory.wanted_splats:
        display.warn(f"only {memory.max_splats:,} splats fit; {memory.advice()}")
        plan = plan.with_max_splats(memory.max_splats)
    try:
        inputs = TrainingInputs(images, data.budget, data.scene.points, start.pose_offsets)
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
        )
    except MemoryError:
        raise OutOfMemory(f"{memory.line()} did not fit; {memory.advice()}") from None


def build_trainer_from_data(data: TrainingData, config: TrainConfig, backend: Backend, display: Display) -> Trainer:
    """A trainer in the initial state of a run, as `train_scene` builds it."""
    plan = data.plan(config)
    start = find_initial_state(data.scene, data.training, plan.config, backend, display)
    return build_trainer_within_memory(backend, plan, data, start, display, PhaseTimer("training"))

"""Ensembles: runs of other seeds whose joined splats a run starts from (--ensemble), where photographs are few.

What few photographs show is not the same in each run, but the runs agree where photographs tell. The mean of their
pictures is therefore nearer to photographs that none has seen than most of the pictures are (Lakshminarayanan et al.
2017, "Deep Ensembles"). The splats of all runs in one scene come near this mean if all of them together let as much
light pass as one run's; a few steps then bring the sharpness back: docs/experiments/validation.md#ensembles.
"""

from __future__ import annotations

import dataclasses
import io

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.editing.selection import merged
from splat_cli.run.plan import RunPlan
from splat_cli.run.resume import free_memory
from splat_cli.run.setup.build_trainer import InitialState, build_trainer_within_memory
from splat_cli.run.setup.initial_state import find_initial_state
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.trainer import Trainer


def start_of_run(plan: RunPlan, data: TrainingData, backend: Backend, display: Display) -> InitialState:
    """`find_initial_state`, with the joined splats of all members if the plan has an ensemble."""
    if not plan.joins:
        return find_initial_state(data.scene, data.training, plan.config, backend, display)
    members = []
    for number in range(plan.config.num_members):
        member = data.plan(settings_of_member(plan, number))
        display.say(f"Run {number + 1} of {plan.config.num_members}, to be joined: {member.config.steps:,} steps")
        start = find_initial_state(data.scene, data.training, member.config, backend, _silent())
        try:
            members.append(_train(member, data, start, backend, display))
        finally:
            free_memory(backend)
    return dataclasses.replace(start, points=joined(members))


def build_trainer_from_data(data: TrainingData, config: TrainConfig, backend: Backend, display: Display) -> Trainer:
    """A trainer in the initial state of a run, as `train_scene` builds it."""
    plan = data.plan(config)
    start = start_of_run(plan, data, backend, display)
    return build_trainer_within_memory(backend, plan, data, start, display, PhaseTimer("training"))


def settings_of_member(plan: RunPlan, number: int) -> TrainConfig:
    """Settings of a run of the default length with a share of the splats, on one GPU."""
    members = plan.config.num_members
    return dataclasses.replace(
        plan.requested,
        ensemble=1,
        steps=None,
        seed=(plan.config.seed + number) % 2**31,
        splat_budget=0.0,
        max_splats=max(plan.config.max_splats // members, 1),
        batch=None,
        gpus=1,
        save_at=None,
    )


def joined(members: list[SplatArrays]) -> SplatArrays:
    """The splats of all members, so transparent that as much light passes through all as through those of one."""
    splats = merged(members)
    log_light = -np.logaddexp(0, splats.logit_opacities.astype(np.float64)) / len(members)
    logits = np.log(-np.expm1(log_light)) - log_light
    return dataclasses.replace(splats, logit_opacities=logits.astype(np.float32))


def _train(plan: RunPlan, data: TrainingData, start: InitialState, backend: Backend, display: Display) -> SplatArrays:
    timer = PhaseTimer("training steps")
    trainer = build_trainer_within_memory(backend, plan, data, start, _silent(), timer)
    with display.training(plan.config.steps) as show:
        trainer.run_until(trainer.config.steps, show)
    return trainer.splats.to_arrays()


def _silent() -> Display:
    """A display that prints nothing: the run itself repeats the same messages."""
    return Display(io.StringIO())

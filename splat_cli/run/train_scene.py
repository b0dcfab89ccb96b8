"""Training of a dataset into an output folder: read the scene, build the trainer, run a session; restart lost ranks."""

import dataclasses
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.gaussians.ply import ply_bytes
from splat_cli.io.files import changed_since, require_space
from splat_cli.ranks.links import inherited_links
from splat_cli.ranks.protocol import Ranks
from splat_cli.run.checkpoints.checkpointer import newest_checkpoint
from splat_cli.run.checkpoints.file import Checkpoint
from splat_cli.run.checkpoints.state import checkpoint_bytes, needs_initial_state
from splat_cli.run.device import prepare_kernels, warn_of_duration
from splat_cli.run.plan import RunPlan
from splat_cli.run.ranks import started_ranks
from splat_cli.run.resume import Restarts, changed_defaults, free_memory, interruption
from splat_cli.run.session import Session, TrainingCallback
from splat_cli.run.setup.build_trainer import InitialState, build_trainer_within_memory
from splat_cli.run.setup.initial_state import find_initial_state, placeholder_state
from splat_cli.run.setup.training_data import TrainingData, read_data, with_fixed_paths
from splat_cli.run.setup.trials import Trials, choose_settings
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.inputs import inputs_of, refuse_other_inputs, summary_of, warning_of_copies
from splat_cli.run.storage.records import Inputs
from splat_cli.run.storage.result import RunSummary
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.training_log import require_tensorboard
from splat_cli.scene.formats import scene_folder
from splat_cli.scene.split import write_split
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.initial_splats import check_source
from splat_cli.train.trainer import Trainer


def train_scene(
    scene_path: Path,
    run: RunDir,
    config: TrainConfig,
    backend: Backend,
    display: Display,
    checkpoint: Checkpoint | None = None,
    callback: TrainingCallback | None = None,
    timer: PhaseTimer | None = None,
) -> RunSummary:
    """Train on the scene, from the start or from `checkpoint`, and write results to the run's folder.

    timer: started with the command.
    With several GPUs, continues from the newest checkpoint after the loss of a rank, unless another program started
    the ranks. Raises SceneError; Interrupted after Ctrl-C or SIGTERM, when the state is saved; DiskError if the final
    splats could not be written; RankError.
    """
    if config.tensorboard:
        require_tensorboard(run.path)
    scene_path, dataset_format = scene_folder(scene_path, config.format)
    config = with_fixed_paths(dataclasses.replace(config, format=dataset_format), scene_path)
    if checkpoint is None:
        check_source(config)

    job = _Job(scene_path, run, config, backend, display, callback, timer or PhaseTimer("starting"))

    def attempt(start: Checkpoint | None) -> RunSummary:
        with started_ranks(config, backend) as ranks:
            return _train(job, start, ranks)

    def clean_up() -> None:
        job.timer.restart("starting")  # each attempt logs its own seconds
        if callback:
            callback.end()
        free_memory(backend)

    try:
        if inherited_links():  # only the parents of these ranks can restart them
            return attempt(checkpoint)
        newest = functools.partial(newest_checkpoint, run.checkpoints_path, display.warn)
        return Restarts(run, config, checkpoint, newest, display).repeat(attempt, clean_up)
    except KeyboardInterrupt as signal:  # while the scene is read, again after the loss of a rank
        raise interruption(run, config, signal) from None


@dataclass(frozen=True)
class _Job:
    """Arguments that all attempts of `train_scene` share."""

    scene_path: Path
    run: RunDir
    config: TrainConfig
    backend: Backend
    display: Display
    callback: TrainingCallback | None
    timer: PhaseTimer


def _train(job: _Job, checkpoint: Checkpoint | None, ranks: Ranks) -> RunSummary:
    """`train_scene` as rank 0 of `ranks`."""
    run, backend, display, timer = job.run, job.backend, job.display, job.timer
    prepare_kernels(backend, job.config)
    with timer("reading the scene"):
        data = read_data(job.scene_path, job.config, backend, display, is_new=checkpoint is None)
        if backend.name == "cpu":
            expected = data.plan(job.config).config
            warn_of_duration(expected, data.training.views, checkpoint.step if checkpoint else 0, display)
        inputs = inputs_of(data.scene.views)
        if changed := changed_since(data.stamps):  # the record would be of other pixels
            raise SceneError(changed)
    is_restart = job.config.steps is None and is_run(run.path)  # after the loss of a rank
    with timer("trial runs"):
        config, trials = choose_settings(run.config() if is_restart else job.config, data, backend, display)
    with timer("reading the scene"):
        plan = data.plan(config)
        wait_for_kernels = prepare_kernels(backend, plan.requested)  # batches may be larger than those prepared above
        for line in plan.warnings:
            display.warn(line)
        if plan.is_sparse:
            display.say(f"{plan.num_views} photographs show few points together: fewer steps and splats, more dropout")
        start = _initial_state(plan, data, checkpoint, backend, display)
    if warning := warning_of_copies(data.split.test, inputs):
        display.warn(warning)
    display.say(f"Device: {backend.describe()}")
    if checkpoint:
        _check_origin(run, job.scene_path, data.scene.origin)
        refuse_other_inputs(run, inputs, summary_of(data.scene.points), job.scene_path, plan.requested)
    trainer = build_trainer_within_memory(backend, plan, data, start, display, timer, ranks)
    session = Session(run, plan, display, trainer, data, job.callback)
    require_space(run.path, _bytes_of_save(trainer, plan.requested))
    if checkpoint:
        _restore(session, checkpoint, job, plan)
    _save_inputs(job, plan, data, inputs, trials, has_refined=checkpoint is not None and plan.requested.pose_opt)
    session.begin(checkpoint)
    if job.callback:
        job.callback.begin(trainer, run)
    return session.train(wait_for_kernels)


def _bytes_of_save(trainer: Trainer, config: TrainConfig) -> int:
    """Size of what the run saves of its present splats: checkpoints, or only a PLY with --keep 0."""
    rows, features, num = len(trainer.model.splats.params), trainer.model.splats.num_features, trainer.num_splats
    return checkpoint_bytes(num, rows, features) if config.keep else ply_bytes(num, rows)


def _restore(session: Session, checkpoint: Checkpoint, job: _Job, plan: RunPlan) -> None:
    """Restore the state of the checkpoint; warns if its run had other defaults."""
    session.restore(checkpoint)
    if changes := changed_defaults(job.run, plan.requested, session.trainer.config, checkpoint):
        job.display.warn(
            f"until step {checkpoint.step}, the run had other defaults: {', '.join(changes)}; another version of "
            "splat began it, or the device had other free memory"
        )


def _save_inputs(
    job: _Job, plan: RunPlan, data: TrainingData, inputs: Inputs, trials: Trials | None, has_refined: bool
) -> None:
    """Write the record of the run's inputs: views, cameras, trials, settings, and the split if it lists names.

    Called after all checks of the run and its checkpoint: a refused command changes nothing. has_refined:
    cameras.json has the refined poses of a run that continues.
    """
    job.run.report_path.unlink(missing_ok=True)  # of an earlier end; `splat report` writes it again
    job.run.save_inputs(inputs, summary_of(data.scene.points))
    if not has_refined:
        job.run.save_cameras(data.scene.views, data.scene.origin)
    if data.split.is_named:
        write_split(job.run.split_path, data.split)
    else:
        job.run.split_path.unlink(missing_ok=True)  # of a run that was killed before it began
    if trials:
        job.run.save_trials(dataclasses.asdict(trials))
    elif not is_run(job.run.path):
        job.run.trials_path.unlink(missing_ok=True)
    job.run.save_config(plan.requested, job.scene_path, job.backend.describe(), data.scene.origin)  # makes it a run


def _check_origin(run: RunDir, scene_path: Path, origin: np.ndarray) -> None:
    """UsageError if the scene's origin has changed since the run began."""
    if (before := run.origin().tolist()) != origin.tolist():
        raise UsageError(
            f"the origin of {scene_path} is {origin.tolist()}, but was {before} when the run began: restore "
            "the scene, or start a new run"
        )


def _initial_state(
    plan: RunPlan, data: TrainingData, checkpoint: Checkpoint | None, backend: Backend, display: Display
) -> InitialState:
    """The state of step 0, or placeholders if a checkpoint replaces all that training needs."""
    needs_surface = plan.config.free_space > 0 and not len(data.scene.points)
    if checkpoint is None or needs_surface or needs_initial_state(checkpoint, plan.requested):
        return find_initial_state(data.scene, data.training, plan.config, backend, display)
    degree = plan.config.trained_sh_degree
    return placeholder_state(data.training, checkpoint.num_splats, checkpoint.num_frozen, degree)

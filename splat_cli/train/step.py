"""Training steps: the launches of a batch, captured as a graph, and the loop that replays it.

`BatchStep.launch` is one batch from the choice of a view to the update; `StepLoop` repeats it and polls the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from splat_cli.config import ResolvedConfig
from splat_cli.data.image_streamer import ImageStreamer
from splat_cli.density.strategy import Strategy
from splat_cli.device import Backend, DeviceArray, ceil_div
from splat_cli.model.model import Model
from splat_cli.render.iter_state import IterState, copy_view_state
from splat_cli.render.project import Update
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.scene.extent import REFERENCE_SIZE
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.joint_models import JointModels


class BatchStep:
    """Queues the steps of a batch and its update, on one GPU. All methods read and write device memory only.

    schedule, order: learning rates and views of all steps, on the device. size: scene size in world units, which scales
    regularisers and noise. projects_ahead: see RasterizationSettings.ahead; not with joint models that may change the
    next view's camera or background.
    """

    def __init__(
        self,
        config: ResolvedConfig,
        model: Model,
        rasterizer: Rasterizer,
        joint: JointModels,
        state: IterState,
        strategy: Strategy,
        schedule: DeviceArray,
        order: DeviceArray,
    ) -> None:
        self.backend, self.config, self.state = rasterizer.backend, config, state
        self.model, self.rasterizer, self.joint = model, rasterizer, joint
        self.schedule, self.order = schedule, order
        self.size, self.batch = REFERENCE_SIZE, config.batch_size
        self.projects_ahead = rasterizer.settings.ahead and all(model.PROJECTS_AHEAD for model in joint.models)
        self._collects_stats, self._tracks_unseen = strategy.collects_stats, strategy.tracks_unseen
        self._absgrad, self._noise_scale = config.absgrad and strategy.collects_stats, strategy.noise_scale
        self._pipeline = ViewPipeline(self.backend, state, self._project, rasterizer.select)
        if self.branches > 1:
            self._states, self._state_of_view = IterState.of_views(self.backend, self.batch)
            joint.loss.allocate(self.branches)

    @property
    def branches(self) -> int:
        """Number of views that are rendered at the same time."""
        return self.rasterizer.settings.branches

    def leave_branches(self) -> None:
        """Render one view at a time from now on, after the rasterizer's buffers are released."""
        self.rasterizer.settings = replace(self.rasterizer.settings, branches=1)
        self.joint.loss.allocate(1)

    def launch(self, first: int = 0) -> None:
        """Queue the steps of a batch from step `first` on, and the update: the launches that a graph captures."""
        if self.branches > 1:
            self._launch_branches()
            return
        raster, joint, state, splats = self.rasterizer, self.joint, self.state, self.model.splats
        for slot in self._views_ahead(first) if self.projects_ahead else self._views(first):
            raster.blend(splats, state)
            self.measure_loss()
            self.differentiate()
            joint.accumulate_gradients(splats, state, raster)
            raster.record_view(slot, state)
            if slot == self.batch - 1:
                raster.update(splats, state, self.update_options())
            joint.step(state)
        joint.update(self.model, state, raster.projected_batch.views, not self.config.visible_adam)

    def _launch_branches(self) -> None:
        """Like `launch`, with several views at the same time."""
        kernel, state, states = self.backend.kernel, self.state, self._states
        inputs = state.array, self.schedule, self.order
        kernel("optim/begin_step", "begin_views")((1,), (self.batch,), *inputs, self.batch, states)
        branches = range(self.branches)  # none on the main stream: its lower priority would make it wait
        for join in [self.backend.branch(partial(self._launch_branch, branch), branch) for branch in branches]:
            join()
        kernel("optim/begin_step", "end_views")((1,), (1,), state.array, states, self.batch, self.branches)
        self.rasterizer.update(self.model.splats, state, self.update_options())

    def _launch_branch(self, branch: int) -> None:
        """Queue every view of a batch whose number is `branch`, modulo the number of branches."""
        raster, loss, splats = self.rasterizer, self.joint.loss, self.model.splats
        loss.select(branch)
        for slot in range(branch, self.batch, self.branches):
            state = self._state_of_view[slot]
            raster.select(slot)
            raster.project_and_sort(splats, state, self.config.dropout)
            raster.blend(splats, state)
            self.measure_loss(state)
            self.differentiate(state)
            raster.record_view(slot, state)
        loss.select(0)

    def measure_loss(self, state: IterState | None = None) -> None:
        """Queue the loss of the rendered image. state: of its view, if not that of the step."""
        self.joint.loss.forward(state or self.state, self.rasterizer.rendered.image)

    def differentiate(self, state: IterState | None = None) -> None:
        """Queue the backward pass from the loss to the gradients of projected splats."""
        rendered, joint, state = self.rasterizer.rendered, self.joint, state or self.state
        joint.loss.backward(state, rendered.image, rendered.d_image)
        joint.add_image_losses(state, rendered)
        joint.add_splat_losses(state, self.rasterizer)
        self.rasterizer.backward_to_projection(self.model.splats, state, self._absgrad)

    def update_options(self) -> Update:
        """Options and target arrays of the update of parameters."""
        c, model = self.config, self.model
        return Update(
            moments=model.moments,
            stats=model.stats if self._collects_stats else None,
            last_seen=model.last_seen if self._tracks_unseen else None,
            has_frozen=model.num_frozen > 0,
            dense=not c.visible_adam,
            absgrad=self._absgrad,
            opacity_reg=c.opacity_reg,
            scale_reg=c.scale_reg / self._unit,
            noise_seed=c.seed,
            noise_scale=self.batch**0.5 * self._noise_scale / self._unit**2,  # per update and covariance
        )

    @property
    def _unit(self) -> float:
        """Size of the scene, relative to the reference size of the settings."""
        return self.size / REFERENCE_SIZE

    def _views(self, first: int) -> Iterator[int]:
        """The views of a batch from view `first` on, each with its splats projected and sorted."""
        for slot in range(first, self.batch):
            self._project(slot, self.state)
            yield slot

    def _views_ahead(self, first: int) -> Iterator[int]:
        """Like `_views`, but each view except the first is projected while the previous one is rendered."""
        self._pipeline.begin(first)
        for slot in range(first, self.batch):
            with self._pipeline.view(slot, first, self.batch - 1):
                yield slot

    def _project(self, slot: int, state: IterState) -> None:
        """Queue the start of a step (its view, learning rates and background), and the lists of its tiles."""
        raster = self.rasterizer
        raster.select(slot)
        self.backend.kernel("optim/begin_step", "begin_step")((1,), (1,), state.array, self.schedule, self.order)
        raster.project_and_sort(self.model.splats, state, self.config.dropout)


class StepLoop:
    """Repeats batches. `step`: number of steps done; `last`: iteration state at the last `sync`.

    graph: replays a batch of `batch_step`. stream: loads the photographs of the next steps, if not all are resident.
    """

    def __init__(
        self, batch_step: BatchStep, graph: CapturedBatch, stream: ImageStreamer | None, timer: PhaseTimer
    ) -> None:
        self.state, self.step, self.last = batch_step.state, 0, batch_step.state.read()
        self._batch_step, self._graph, self._stream, self._timer = batch_step, graph, stream, timer
        self._batch = batch_step.batch

    def run_until(self, target: int) -> None:
        """Run whole batches until `target` steps are done; after an overflow, grow the buffers and repeat the step."""
        target = self._whole(target)
        while self.step < target:
            queued = self.step
            while queued < target:
                stop = min(target, self._stream.ready(queued)) if self._stream else target
                self._queue(queued, stop)
                queued = stop
            if self._stream:
                self._stream.ready(queued)  # while the device works
            self.sync()

    def sync(self) -> None:
        """Wait for the device and read the iteration state; after an overflow, grow the buffers."""
        self.last = self.state.read()
        self.step = int(self.last["step"])
        if self.last["overflowed"]:
            self.step -= 1 if self._graph.keeps_steps else self._batch
            self._graph.grow_if_overflowed(self.state)
            self.state.write(step=self.step)

    def _whole(self, step: int) -> int:
        return ceil_div(step, self._batch) * self._batch

    def _queue(self, step: int, stop: int) -> None:
        if step % self._batch:  # after an overflow within a batch that keeps its steps
            self._batch_step.launch(step % self._batch)
        count = (stop - self._whole(step)) // self._batch
        if count > 0 and not self._graph.current:
            with self._timer("preparing kernels"):
                self._graph.run(1)
            count -= 1
        self._graph.run(count)


class CapturedGraph:
    """Captures the work that `launch` queues, and replays it; captured again after buffers were reallocated.

    launch: queues kernels and copies with fixed arrays and scalars; varying values must be in device memory.
    """

    def __init__(self, rasterizer: Rasterizer, launch: Callable[[], None]) -> None:
        self._rasterizer, self._launch = rasterizer, launch
        self._replay = launch
        self._generation = -1

    @property
    def current(self) -> bool:
        """Whether a graph is captured and its buffers were not reallocated since."""
        return self._generation == self._rasterizer.generation

    def run(self, count: int) -> None:
        """Queue the graph `count` times."""
        if count > 0 and not self.current:
            self._launch()  # loads kernels, which is not allowed during capture
            self._replay = self._rasterizer.backend.capture_graph(self._launch)
            self._generation = self._rasterizer.generation
            count -= 1
        for _ in range(count):
            self._replay()


class Replay(Protocol):
    """Captured work."""

    @property
    def current(self) -> bool:
        """Whether the graph is captured."""

    def run(self, count: int) -> None:
        """Queue it `count` times."""


class CapturedBatch(Replay, Protocol):
    """A captured batch of training steps: LocalBatch, or ShardedBatch on several ranks."""

    @property
    def keeps_steps(self) -> bool:
        """Whether an overflow keeps the steps of a batch done so far, or undoes the whole batch."""

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See Rasterizer.grow_if_overflowed."""


class LocalBatch(CapturedGraph):
    """A batch of steps on one GPU."""

    def __init__(self, batch_step: BatchStep) -> None:
        super().__init__(batch_step.rasterizer, batch_step.launch)
        self._batch_step = batch_step

    @property
    def keeps_steps(self) -> bool:
        """See CapturedBatch."""
        return self._batch_step.branches == 1

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See Rasterizer.grow_if_overflowed."""
        return self._rasterizer.grow_if_overflowed(state)


class ViewPipeline:
    """Queues the preparation of a view (projection and tile lists) concurrently with the rendering of the previous one.

    prepare: queues it, given the view and a state. select: makes the rasterizer use the view's buffers from now on. Two
    states alternate, and the buffers that `select` chooses must alternate, too. The two overlap well: preparation
    occupies few threads and waits for memory, blending computes.
    """

    def __init__(
        self,
        backend: Backend,
        state: IterState,
        prepare: Callable[[int, IterState], None],
        select: Callable[[int], None],
    ) -> None:
        self._backend, self._state, self._prepare, self._select = backend, state, prepare, select
        self._next = IterState(backend)

    def begin(self, view: int) -> None:
        """Queue the preparation of the first view."""
        self._prepare(view, self._state)

    @contextmanager
    def view(self, view: int, first: int, last: int) -> Iterator[None]:
        """Context for the rendering of `view`, which the state then describes. Enter it for first to last, in order.

        The first one has been prepared by `begin`.
        """
        if view > first:
            copy_view_state(self._next, self._state)
        join: Callable[[], None] | None = None
        if view < last:
            if view == first:
                copy_view_state(self._state, self._next)
            join = self._backend.branch(partial(self._prepare, view + 1, self._next))
        self._select(view)
        yield
        if join:
            join()

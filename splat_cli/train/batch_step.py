"""Steps of a batch and its update on one GPU, as launches that a captured graph replays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from splat_cli.config import ResolvedConfig
from splat_cli.density.strategy import Strategy
from splat_cli.density.unseen import tracks_unseen
from splat_cli.device import Backend, DeviceArray
from splat_cli.gaussians.splats import Splats
from splat_cli.model.columns import copy_columns
from splat_cli.model.model import Model
from splat_cli.model.noise import langevin_noise
from splat_cli.ranks.share import WHOLE, Share
from splat_cli.render.iter_state import IterState, copy_view_state
from splat_cli.render.project import Projection
from splat_cli.render.project_backward import Update
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.joint_models import JointModels


class ViewPipeline:
    """Queues the preparation of a view (projection and tile lists) concurrently with the rendering of the one before.

    prepare: queues it, given the view and a state. select: makes the rasterizer use the view's buffers from now on. Two
    states alternate, and so must the buffers that `select` chooses. They overlap well: preparation occupies few threads
    and is limited by memory latency, blending by arithmetic.
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


MAX_AHEAD = 4_000_000  # splats; projecting more is limited by memory bandwidth and slows down concurrent kernels


class BatchStep:
    """Queues the steps of a batch and its update. All methods read and write device memory only.

    schedule, order: learning rates and views of all steps, on the device. unit: size of the scene over the reference
    size, by which regularisers and noise are scaled. projects_ahead: the next view of a batch is projected while one is
    rendered; not with joint models that may change its camera or background.
    """

    def __init__(
        self, config: ResolvedConfig, model: Model, rasterizer: Rasterizer, joint: JointModels,
        state: IterState, strategy: Strategy, schedule: DeviceArray, order: DeviceArray,
    ) -> None:  # fmt: skip
        self.backend, self.config, self.state, self.rasterizer = rasterizer.backend, config, state, rasterizer
        self.unit = 1.0
        self._model, self._joint, self._strategy = model, joint, strategy
        self._schedule, self._order = schedule, order
        self._d_means: DeviceArray | None = None  # of a batch's views
        self.projects_ahead = config.batch_size > 1 and all(model.PROJECTS_AHEAD for model in joint.models)
        self._pipeline = ViewPipeline(self.backend, state, self._project, rasterizer.select)

    @property
    def splats(self) -> Splats:
        return self._model.splats

    def launch(self, first: int = 0) -> None:
        """Queue the steps of a batch from step `first` on, and the update: the launches that a graph captures."""
        last, updated = self.config.batch_size - 1, self.rasterizer.updated
        ahead = self.projects_ahead and self.splats.capacity <= MAX_AHEAD
        for slot in self._views_ahead(first) if ahead else self._views(first):
            self._render(slot)
            if slot == last:
                self.rasterizer.update(self.splats, self.state, self.update())
                self.add_noise(updated)
            self._joint.step(self.state)
        self._joint.update(self._model, self.state, updated.views, not self.config.visible_adam)

    @property
    def view_source(self) -> tuple[DeviceArray, DeviceArray]:
        """Device arrays (schedule, order) that determine views, learning rates and backgrounds of steps."""
        return self._schedule, self._order

    def measure_loss(self) -> None:
        """Queue the loss of the rendered picture."""
        self._joint.loss.forward(self.state, self.rasterizer.picture.image)

    def differentiate(self) -> None:
        """Queue the backward pass from the loss to the gradients of projected splats."""
        picture, loss = self.rasterizer.picture, self._joint.loss
        loss.backward(self.state, picture.image, picture.d_image)
        self._joint.add_losses(self.state, picture)
        self._joint.add_gradients(self.state, self.rasterizer)
        self.rasterizer.backward_to_projection(self.splats, self.state, self._absgrad)

    def update(self) -> Update:
        """Options and target arrays of the update of parameters."""
        c, model = self.config, self._model
        d_means = self._joint.position_gradients(self.splats.capacity)
        return Update(
            moments1=model.moments.first, moments2=model.moments.second,
            stats=model.stats if self._strategy.collects_stats else None,
            last_seen=model.last_seen if tracks_unseen(c, self._strategy) else None,
            dense=not c.visible_adam, absgrad=self._absgrad,
            opacity_reg=c.opacity_reg, scale_reg=c.scale_reg / self.unit,
            d_means=d_means if d_means is None or c.batch_size == 1 else self._batch_d_means(),
        )  # fmt: skip

    def add_noise(self, projection: Projection, share: Share = WHOLE) -> None:
        """Queue the noise that follows an update, if the strategy uses it. projection: of the batch's views."""
        if (noise_scale := self._strategy.noise_scale) > 0:
            noise_scale = self.config.batch_size**0.5 * noise_scale / self.unit**2  # per update and covariance
            visible_in = projection if self.config.visible_adam else None
            langevin_noise(self.splats, self.state, self.config.seed, noise_scale, share, visible_in)

    def _views(self, first: int) -> Iterator[int]:
        """The views of a batch from view `first` on, each with its splats projected and sorted."""
        for slot in range(first, self.config.batch_size):
            self._project(slot, self.state)
            yield slot

    def _views_ahead(self, first: int) -> Iterator[int]:
        """As `_views`, but each view except the first is projected while the one before is rendered."""
        self._pipeline.begin(first)
        for slot in range(first, size := self.config.batch_size):
            with self._pipeline.view(slot, first, size - 1):
                yield slot

    def _project(self, slot: int, state: IterState) -> None:
        """Queue the start of a step (its view, learning rates and background), and the lists of its tiles."""
        raster = self.rasterizer
        raster.select(slot)
        self.backend.kernel("optim/begin_step", "begin_step")((1,), (1,), state.array, self._schedule, self._order)
        raster.project_and_sort(self.splats, state, self.config.dropout)

    def _render(self, slot: int) -> None:
        """Queue a step from its projected splats to their gradients."""
        raster = self.rasterizer
        raster.blend(self.splats, self.state)
        self.measure_loss()
        self.differentiate()
        d_means = self._joint.position_gradients(self.splats.capacity)
        self._joint.accumulate(self.splats, self.state, raster)
        raster.record_view(slot, self.state)
        if d_means is not None and self.config.batch_size > 1:
            copy_columns(self.backend, d_means, self.splats.capacity, out=self._batch_d_means()[slot])

    def _batch_d_means(self) -> DeviceArray:
        """Gradients of positions of a batch's views, float32 [batch, 3, capacity]."""
        shape = self.config.batch_size, 3, self.splats.capacity
        if self._d_means is None or self._d_means.shape != shape:
            self._d_means = self.backend.xp.empty(shape, "float32")
        return self._d_means

    @property
    def _absgrad(self) -> bool:
        return self.config.absgrad and self._strategy.collects_stats

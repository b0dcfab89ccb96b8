"""The rasterizer of one view: scratch buffers, forward and backward pass, interface of colour models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from splat_cli.device import Backend, DeviceArray, MemoryCost
from splat_cli.gaussians.splats import Splats
from splat_cli.render.blend import RenderBuffers, blend, blend_backward, blend_scores
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import (
    ProjectedBatch,
    Projection,
    RasterizationSettings,
    Update,
    project,
    project_backward,
)
from splat_cli.render.tiles import TileLists

MIN_PAIRS = 1 << 16
MAX_PAIRS = 2**31 - 2**10  # blending kernels index pairs by int, and read ahead by up to a batch
HEADROOM, TRAINING_HEADROOM = 1.3, 1.5  # headroom when pair buffers grow; larger in training, which adds splats


class Coloring(Protocol):
    """Colour model of visible splats that replaces their spherical harmonics, which then have degree 0."""

    def resize(self, capacity: int) -> None:
        """Allocate buffers for `capacity` splats."""

    def forward(self, splats: Splats, cameras: CameraTable, state: IterState, projection: Projection) -> None:
        """Overwrite projection.colors of the splats visible in the state's view."""

    def backward(self, splats: Splats, cameras: CameraTable, state: IterState, projection: Projection) -> None:
        """Backward pass from gradients of colours in projection.d_splats to the model and the splats' colours."""


class Rasterizer:
    """Forward and backward pass of one view, for splats of a fixed capacity and the views of a camera table.

    projection, tiles, rendered: projected splats, tile lists and rendered image of the selected view, with gradients.
    projected_batch: the same splats in all views of a batch, as the update needs them; projections: each view of it.
    generation: changes when arrays are reallocated, which invalidates captured graphs.
    """

    def __init__(
        self,
        backend: Backend,
        cameras: CameraTable,
        capacity: int,
        settings: RasterizationSettings,
        *,
        coloring: Coloring | None = None,
        pair_capacity: int = MIN_PAIRS,
    ) -> None:
        """coloring: used instead of spherical harmonics. pair_capacity: initial number of (splat, tile) pairs."""
        self.backend, self.cameras, self.settings, self.coloring = backend, cameras, settings, coloring
        self.generation = 0
        self.resize_splats(capacity)
        self.resize_pairs(pair_capacity)

    @staticmethod
    def memory_cost(settings: RasterizationSettings) -> MemoryCost:
        """Device memory of all scratch buffers."""
        tiles = TileLists.memory_cost(settings.num_buffers, settings.branches)
        pictures = RenderBuffers.memory_cost(settings.training, settings.branches)
        return Projection.memory_cost(settings) + tiles + pictures

    def resize_pairs(self, pair_capacity: int) -> None:
        """Allocate buffers for `pair_capacity` pairs; their contents are lost.

        MemoryError if there is not enough memory, even if the operating system overcommits.
        """
        cameras = self.cameras
        per_pair = self.memory_cost(self.settings).per_pair
        fitting = min(int(self.backend.memory()[0] / per_pair), MAX_PAIRS)
        if pair_capacity > fitting:
            raise MemoryError(f"a view needs {pair_capacity:,} pairs of a splat and a tile, and {fitting:,} fit")
        self.generation += 1
        for branch in range(self.settings.branches):  # no other name for buffers here: an error would keep them alive
            self.projections[branch].tile_counts[...] = 0  # a view that overflowed does not clear it
        sizes = pair_capacity, cameras.max_tiles
        self.tile_lists: list[TileLists] = []
        for slot in range(self.settings.num_buffers):
            shared = None if slot < self.settings.branches else self.tile_lists[0]
            self.tile_lists.append(TileLists(self.backend, *sizes, shared))
        self.tiles = self.tile_lists[0]
        self.pictures: list[RenderBuffers] = []
        for _ in range(self.settings.branches):
            self.pictures.append(
                RenderBuffers.allocate(
                    self.backend, cameras.max_pixels, cameras.max_tiles, pair_capacity, self.settings.training
                )
            )
        self.select(0)

    def grow_pairs(self, needed_pairs: int) -> None:
        """After an overflow: allocate buffers for the pairs needed, with headroom. MemoryError as in `resize_pairs`."""
        roomy = int(needed_pairs * (TRAINING_HEADROOM if self.settings.training else HEADROOM))
        self.resize_pairs(max(needed_pairs, min(roomy, MAX_PAIRS)))

    def grow_if_overflowed(self, state: IterState) -> bool:
        """Grow the buffers if the last view, or one of another rank, overflowed; returns whether it did."""
        after = state.read()
        if after["overflowed"]:
            if (needed := int(after["needed_pairs"])) > self.tiles.pair_capacity:
                self.grow_pairs(needed)
            state.write(overflowed=0)
        return bool(after["overflowed"])

    def release(self) -> None:
        """Free all scratch memory; call `resize_splats`, then `resize_pairs` before the next pass."""
        for name in ("projection", "projected_batch", "projections", "tiles", "tile_lists", "rendered", "pictures"):
            self.__dict__.pop(name, None)

    def resize_splats(self, capacity: int) -> None:
        """Allocate buffers for `capacity` splats, after these were reallocated; the contents are lost."""
        self.generation += 1
        self.projected_batch = ProjectedBatch.allocate(self.backend, capacity, self.settings)
        self.projections = self.projected_batch.projections(self.backend, self.cameras.max_tiles, self.settings)
        self.projection = self.projections[0]
        if self.coloring:
            self.coloring.resize(capacity)

    def select(self, slot: int) -> None:
        """Render into slot `slot` of the batch from now on."""
        self.projection, self.tiles = self.projections[slot], self.tile_lists[slot % len(self.tile_lists)]
        self.rendered = self.pictures[slot % len(self.pictures)]

    def record_view(self, slot: int, state: IterState) -> None:
        """Store the camera and loss of the rendered view for the update of the batch."""
        if self.projected_batch.views is not None:
            arrays = self.cameras.array, state.array, self.projected_batch.views[slot]
            self.backend.kernel("optim/begin_step", "record_view")((1,), (1,), *arrays)

    def forward(
        self, splats: Splats, state: IterState, dropout: float = 0.0, before_sort: Callable[[], None] | None = None
    ) -> None:
        """Render the state's view into `rendered`. dropout: fraction of splats dropped at random.

        before_sort: called after splats are projected and before they are sorted.
        Sets the state's `overflowed` if the pairs exceed the buffers.
        """
        self.project_and_sort(splats, state, dropout, before_sort)
        self.blend(splats, state)

    def project_and_sort(
        self, splats: Splats, state: IterState, dropout: float = 0.0, before_sort: Callable[[], None] | None = None
    ) -> None:
        """The first part of `forward`: project the splats into the state's view and build the lists of its tiles."""
        project(splats, self.cameras, state, self.settings.antialias, self.projection, dropout)
        if before_sort:
            before_sort()
        self.tiles.build(self.cameras, state, self.projection)

    def blend(self, splats: Splats, state: IterState) -> None:
        """The last part of `forward`: blend the listed splats into `rendered`."""
        if self.coloring:
            self.coloring.forward(splats, self.cameras, state, self.projection)
        blend(self.cameras, state, self.projection, self.tiles, self.rendered)

    def blend_values(self, state: IterState, values: DeviceArray, light_left: int | None) -> None:
        """Blend values float32 [num, C <= 3] instead of colours into `rendered`. light_left: see `blend`."""
        self.projection.colors[: values.shape[0], : values.shape[1]] = values
        blend(self.cameras, state, self.projection, self.tiles, self.rendered, light_left)

    def score(self, state: IterState, errors: DeviceArray, scores: DeviceArray, fixed_sums: bool = False) -> None:
        """Add each splat's blending weight in the rendered view, and its share of the errors: see `blend_scores`."""
        tiles_suffice = self.backend.name == "cpu"  # to occupy all threads
        blend_scores(
            self.cameras,
            state,
            self.projection,
            self.tiles,
            self.rendered,
            errors,
            scores,
            fixed_sums=fixed_sums,
            by_segments=self.settings.training and not tiles_suffice,
        )

    def backward_to_projection(self, splats: Splats, state: IterState, absgrad: bool) -> None:
        """Backward pass from rendered.d_image to the gradients of projected splats."""
        blend_backward(
            self.cameras, state, self.projection, self.tiles, self.rendered, absgrad, self.settings.matrix_sums
        )
        if self.coloring:
            self.coloring.backward(splats, self.cameras, state, self.projection)

    def update(self, splats: Splats, state: IterState, update: Update) -> None:
        """Backward pass from the gradients of projected splats (of the whole batch, if any) to the raw parameters."""
        project_backward(splats, self.cameras, state, self.settings.antialias, self.projected_batch, update)

    def image(self, view_index: int) -> DeviceArray:
        """The last rendered image as a device array float32 [3, H, W]; valid until the next forward pass."""
        view = self.cameras.current_views[view_index]
        return self.rendered.image[: 3 * view.height * view.width].reshape(3, view.height, view.width)

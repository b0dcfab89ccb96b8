"""The colour field as colour model of the rasterizer, and its creation from the settings.

Host side of cuda_src/field/color_field.cu, embedding.cu and splat_features.cu.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import DeviceArray, MemoryCost, Unit, ceil_div, check_arrays, launch
from splat_cli.errors import UsageError
from splat_cli.field.color_field import ColorField, FieldShape, field_bounds
from splat_cli.field.hash_grid import GridShape, encode_directions
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.splats import MEANS, Splats
from splat_cli.joint.joint_model import JointInputs, JointModel
from splat_cli.model.model import Model
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import Projection, batch_defines, batch_size_defines

WARPS, LANES, SUM_ROWS = 8, 32, 1024  # SUM_ROWS as in cuda_src/field/embedding.cu


class FieldColoring(JointModel):
    """Colours visible splats by a field: a render.rasterizer.Coloring.

    embeddings: one row per view of the camera table; by default the field's embeddings. only_embeddings: the backward
    pass skips the tables.
    """

    ROLE = "coloring"
    LATE_ARRAYS = ("field_bounds",)

    def __init__(
        self,
        field: ColorField,
        embeddings: Parameters | None = None,
        only_embeddings: bool = False,
    ) -> None:
        self.field, self.backend = field, field.backend
        self.embeddings = field.embeddings if embeddings is None else embeddings
        self.only_embeddings = only_embeddings
        self.num_rows = self.backend.xp.zeros(1, "uint32")
        self._capacity = 0

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.color == "field"

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        table = {"DIM": 3, "FEATURES": FEATURES}
        units: list[Unit] = [
            ("field/dense", {}),
            ("field/dense", {"ACTIVATION": 0}),
            ("field/dense", {"ACTIVATION": 1}),
            ("field/dense_weights", {}),
            ("field/hash_grid", table),
            ("field/hash_grid", table | {"HALF_TABLES": 1}),
            ("field/color_field", {}),
            ("field/sh_encode", {}),
        ]
        batch = batch_size_defines(config.batch_size)
        units.append(("field/adam_flat", batch))
        if config.field_appearance:
            units.append(("field/embedding", {}))
        if config.field_features:
            units.append(("field/splat_features", batch))
        return units

    @classmethod
    def make(cls, inputs: JointInputs) -> FieldColoring:
        """See JointModel.make. UsageError with --deterministic on a GPU."""
        return cls(new_field(inputs.splats, len(inputs.cameras.views), inputs.config))

    @staticmethod
    def memory_cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        shape = field_shape(config)
        return MemoryCost(fixed=shape.bytes, per_splat=shape.bytes_per_row + 4 * shape.features)

    def update(self, model: Model, state: IterState, views: DeviceArray | None, dense: bool) -> None:
        """See JointModel.update: Adam on the field, and on the features of all splats."""
        self.field.step(state, views)
        if size := self.field.shape.features:
            kernel = self.backend.kernel("field/splat_features", "step_features", **batch_defines(views))
            inputs = state.array, views, self._capacity, model.splats.first_feature, int(dense), self.d_features
            grid, params = (ceil_div(self._capacity, LANES * WARPS), size), model.splats.params
            kernel(grid, (LANES, WARPS), *inputs, params, model.moments)

    def arrays(self) -> dict[str, DeviceArray]:
        return self.field.arrays()

    def refresh(self) -> None:
        self.field.refresh()

    def resize(self, capacity: int) -> None:
        """See Coloring.resize: one row per splat, because a view may show all splats."""
        if self.field.rows != capacity:
            self.field.network.resize(capacity)
        if self._capacity == capacity:
            return
        self._capacity = capacity
        empty = self.backend.xp.empty
        self.splat_from_row = empty(capacity, "int32")
        self.positions, self.directions = empty((3, capacity), "float32"), empty((3, capacity), "float32")
        self.d_features = self.backend.xp.zeros((self.field.shape.features, capacity), "float32")

    def forward(self, splats: Splats, cameras: CameraTable, state: IterState, projection: Projection) -> None:
        """See Coloring.forward."""
        self.backend.fill(self.num_rows, 0)
        self._launch("list_visible", state.array, projection.depths, self.splat_from_row, self.num_rows)
        self._evaluate(splats, cameras, state, projection.colors)

    def color_all(self, splats: Splats, cameras: CameraTable, state: IterState, colors: DeviceArray) -> None:
        """Write the colours, float32 [capacity, 4], of all splats in the state's view, visible or not."""
        self.num_rows.fill(splats.num)
        self.splat_from_row[...] = self.backend.xp.arange(self._capacity, dtype="int32")
        self._evaluate(splats, cameras, state, colors)

    def _evaluate(self, splats: Splats, cameras: CameraTable, state: IterState, colors: DeviceArray) -> None:
        check_arrays("field_inputs", params=(splats.params, "float32", f"R {self._capacity}"))
        rows, network = (self.splat_from_row, self.num_rows), self.field.network
        inputs = cameras.array, state.array, splats.params, self._capacity, self.field.frame
        self._launch("field_inputs", *inputs, *rows, self.positions, self.directions)
        position, direction, appearance, features = self._parts(network.inputs)
        self.field.grid.encode(self.positions, self.num_rows, position)
        encode_directions(self.backend, self.directions, self.num_rows, self.field.shape.direction_degree, direction)
        self._launch_embedding("embed", LANES, state.array, self.embeddings.values, appearance)
        own = splats.params[splats.first_feature :]
        self._launch_features("gather_features", own, self._capacity, *rows, features)
        network.forward(self.num_rows)
        self._launch(
            "field_colors", state.array, splats.params, self._capacity, *rows, self.directions, network.outputs, colors
        )

    def backward(self, splats: Splats, cameras: CameraTable, state: IterState, projection: Projection) -> None:
        """See Coloring.backward. Adds to the gradients of the field's parameters."""
        rows, network = (self.splat_from_row, self.num_rows), self.field.network
        inputs = state.array, splats.params, self._capacity, *rows, self.directions, network.outputs
        self._launch("field_colors_backward", *inputs, projection.colors, projection.d_splats, network.d_outputs)
        network.backward(self.num_rows)
        position, _, appearance, features = self._parts(network.d_inputs)
        self._launch_embedding("embedding_backward", SUM_ROWS, state.array, appearance, self.embeddings.gradients)
        if not self.only_embeddings:
            self._launch_features("add_feature_gradients", self._capacity, *rows, features, self.d_features)
            self.field.grid.backward(self.positions, self.num_rows, position)

    def _parts(self, planes: DeviceArray) -> list[DeviceArray]:
        """Planes of position, direction, appearance and features."""
        shape = self.field.shape
        sizes = (shape.grid.width, shape.direction_degree**2, shape.appearance, shape.features)
        ends = list(itertools.accumulate(sizes))
        return [planes[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def _launch(self, kernel: str, *args: Any) -> None:
        launch(self.backend, "field/color_field", kernel, self._capacity, *args)

    def _launch_embedding(
        self, kernel: str, rows: int, state: DeviceArray, source: DeviceArray, target: DeviceArray
    ) -> None:
        size = self.field.shape.appearance
        if size:
            grid, arrays = (ceil_div(self._capacity, rows * WARPS), size), (state, source, size, self._capacity)
            self.backend.kernel("field/embedding", kernel)(grid, (LANES, WARPS), *arrays, self.num_rows, target)

    def _launch_features(self, kernel: str, *args: Any) -> None:
        if size := self.field.shape.features:
            launch(self.backend, "field/color_field", kernel, self._capacity, *args, rows=size)


# Sizes of the hash grid, compared with Instant-NGP (Mueller et al. 2022, table 1) in docs/experiments/field.md. They
# are constants because no other values were measured.
FEATURES = 4  # per entry: one load of 8 bytes and, from sm_90 on, one atomic of four floats
LEVELS = 8  # 32 inputs like Instant-NGP (16 levels of 2 features), with half the lookups
COARSEST = 16  # cells per axis, as in Instant-NGP; a cell is a quarter of the radius of most splats (contraction.cuh)
GROWTH = 2.0  # up to 2,048 cells, as in Instant-NGP for scenes of one unit; the next level shares all corners


def field_shape(config: TrainConfig) -> FieldShape:
    """Shape of the field from the settings."""
    grid = GridShape(3, LEVELS, config.field_table_size, FEATURES, COARSEST, GROWTH)
    return FieldShape(
        grid, config.field_direction_degree, appearance=config.field_appearance, features=config.field_features
    )


def new_field(splats: Splats, num_views: int, config: TrainConfig) -> ColorField:
    """An untrained field for initial `splats` and `num_views` photographs. UsageError with --deterministic on CUDA."""
    if config.deterministic and splats.backend.name == "cuda":
        raise UsageError("--color field sums in any order on a GPU: leave out --deterministic, or use --device cpu")
    means = splats.backend.download(splats.params[MEANS, : splats.num]).T
    rng = np.random.default_rng((config.seed, 2))  # separate from the generator of density control
    return ColorField(splats.backend, field_shape(config), field_bounds(means), num_views, splats.capacity, rng)

"""The colour field: maps position, direction and photograph to gain and offset of a splat's colour.

Positions are contracted outside of the field's bounds (cuda_src/field/contraction.cuh).
"""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import Backend, DeviceArray
from splat_cli.field.hash_grid import GridShape, HashGrid
from splat_cli.field.network import Network, num_weights, padded
from splat_cli.field.parameters import Parameters
from splat_cli.render.iter_state import LEARNING_RATES, IterState

# Mirrors `struct FieldBounds` in cuda_src/field/color_field.cu.
BOUNDS_DTYPE = np.dtype([("center", np.float32, 3), ("inv_radius", np.float32)])

INSIDE = 0.8  # fraction of the points within the radius


def field_bounds(points: np.ndarray) -> np.ndarray:
    """BOUNDS_DTYPE scalar: median of points [N, 3], and the radius in world units that holds the fraction INSIDE."""
    finite = points[np.isfinite(points).all(axis=1)]
    center = np.median(finite, axis=0)
    radius = float(np.quantile(np.linalg.norm(finite - center, axis=1), INSIDE))
    frame = np.zeros((), BOUNDS_DTYPE)
    frame["center"], frame["inv_radius"] = center, 1 / max(radius, 1e-6)
    return frame


OUTPUTS = 6  # gain - 1 and offset of three channels
RATE = LEARNING_RATES.index("field")  # learning rate of the tables
NETWORK_RATE = 0.2  # learning rate of the network, relative to the tables
EMBEDDING_RATE = 4.0  # learning rate of the embeddings, relative to the tables
EMBEDDING_SIZE = 0.1  # initial standard deviation


@dataclass(frozen=True)
class FieldShape:
    """Sizes of a field. appearance: length of a photograph's embedding. features: length of a splat's own vector.

    hidden: as in the colour network of Instant-NGP (Mueller et al. 2022, sec. 5.4); a block of dense.cu has 64 outputs.
    """

    grid: GridShape
    direction_degree: int = 4
    hidden: tuple[int, ...] = (64, 64)
    appearance: int = 0
    features: int = 0

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of inputs (position, direction, appearance, features), values of hidden layers, and outputs."""
        return (self.grid.width + self.direction_degree**2 + self.appearance + self.features, *self.hidden, OUTPUTS)

    def sizes(self) -> dict[str, int]:
        """Numbers of values of tables and network."""
        return {"tables": self.grid.num_entries * self.grid.features, "network": num_weights(self.widths)}

    @property
    def bytes(self) -> int:
        """Device memory of the tables in bytes: values, gradients and two moments in float, and a copy in half."""
        return self.grid.num_entries * self.grid.features * (4 * 4 + 2)

    @property
    def bytes_per_row(self) -> int:
        """Device memory per evaluated splat in bytes: layers with gradients, position, direction, index."""
        return 4 * (2 * sum(map(padded, self.widths)) + 16)

    def to_dict(self) -> dict[str, Any]:
        """The sizes as JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FieldShape:
        """The shape that `to_dict` returned."""
        return cls(**{**values, "grid": GridShape(**values["grid"]), "hidden": tuple(values["hidden"])})


class ColorField:
    """Hash grid, network and embeddings of `num_views` photographs, with moments of their optimiser.

    frame: BOUNDS_DTYPE scalar, bounds of the scene. rows: maximum number of splats per evaluation. Tables are read in
    half precision; a new field leaves colours unchanged.
    """

    def __init__(
        self,
        backend: Backend,
        shape: FieldShape,
        frame: np.ndarray,
        num_views: int,
        rows: int,
        rng: np.random.Generator,
    ) -> None:
        self.backend, self.shape, self.frame, self.num_views = backend, shape, frame, num_views
        self._bounds = backend.upload(np.frombuffer(frame.tobytes(), np.float32).copy())  # saved in checkpoints
        self.grid = HashGrid(backend, shape.grid, rng, half=True)
        self.network = Network(backend, shape.widths, rows, rng, zero_outputs=True)
        start = rng.normal(0, EMBEDDING_SIZE, (num_views, max(shape.appearance, 1)))
        self.embeddings = Parameters(backend, start[:, : shape.appearance])

    @property
    def rows(self) -> int:
        """Maximum number of splats per evaluation."""
        return self.network.rows

    def with_rows(self, rows: int) -> ColorField:
        """A field for `rows` splats per evaluation that shares all parameters with this one."""
        other = copy.copy(self)
        other.network = copy.copy(self.network)
        other.network.resize(rows)
        return other

    def parts(self) -> dict[str, Parameters]:
        """Trained parameters by name."""
        return {"tables": self.grid.parameters, "network": self.network.parameters, "embeddings": self.embeddings}

    def arrays(self) -> dict[str, DeviceArray]:
        """State arrays by name, as saved in checkpoints."""
        parts = self.parts()
        trained = {f"field_{part}_{name}": array for part in parts for name, array in parts[part].arrays().items()}
        return trained | {"field_bounds": self._bounds}

    def refresh(self) -> None:
        """Recompute derived state after the arrays were written to."""
        self.grid.parameters.refresh()
        self.frame = self.backend.download(self._bounds).view(BOUNDS_DTYPE).reshape(())

    def step(self, state: IterState, views: DeviceArray | None = None) -> None:
        """One Adam step: table entries and embeddings with a gradient, and the whole network.

        views: `struct BatchView` of the batch over which gradients were summed; None: a single view.
        """
        self.grid.parameters.adam_flat(state, RATE, sparse=True, views=views)
        self.network.parameters.adam_flat(state, RATE, factor=NETWORK_RATE, views=views)
        if self.shape.appearance:
            self.embeddings.adam_flat(state, RATE, sparse=True, factor=EMBEDDING_RATE, views=views)

    def clear_gradients(self) -> None:
        """Set all gradients to zero."""
        for parameters in self.parts().values():
            parameters.gradients.fill(0)

    def embedding_rows(self) -> np.ndarray:
        """Embeddings of all photographs, float32 [num_views, appearance]."""
        size = self.shape.appearance
        return self.backend.download(self.embeddings.values)[: self.num_views * size].reshape(self.num_views, size)

"""The colour field: from position, direction and photograph to gain and offset of a splat's colour."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from splat_cli.device import Backend
from splat_cli.field.bounds import BOUNDS_DTYPE
from splat_cli.field.hash_grid import GridShape, HashGrid
from splat_cli.field.network import Network, num_weights, padded
from splat_cli.field.parameters import Parameters
from splat_cli.render.iter_state import LEARNING_RATES, IterState

OUTPUTS = 6  # gains less 1 and offsets of three channels
RATE = LEARNING_RATES.index("shN")  # of the tables
NETWORK_RATE = 0.2  # times it: the network's, and
EMBEDDING_RATE = 4.0  # that of photographs
EMBEDDING_SIZE = 0.1  # standard deviation that embeddings begin with


@dataclass(frozen=True)
class FieldShape:
    """The sizes of a field; appearance: numbers that describe a photograph, 0 where all look alike."""

    grid: GridShape
    direction_degree: int = 4
    hidden: tuple[int, ...] = (64, 64)
    appearance: int = 0

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the network's inputs (position, direction, appearance), its hidden layers and its outputs."""
        return (self.grid.width + self.direction_degree**2 + self.appearance, *self.hidden, OUTPUTS)

    def sizes(self) -> dict[str, int]:
        """Numbers of values of the tables and of the network."""
        return {"tables": self.grid.num_entries * self.grid.features, "network": num_weights(self.widths)}

    @property
    def bytes(self) -> int:
        """Of device memory that the tables take: values, gradients and two moments as floats, and the halves."""
        return self.grid.num_entries * self.grid.features * (4 * 4 + 2)

    @property
    def bytes_per_row(self) -> int:
        """That a splat takes while the field is evaluated: layers with their gradients, position, direction, index."""
        return 4 * (2 * sum(map(padded, self.widths)) + 16)

    def facts(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> FieldShape:
        return cls(**{**facts, "grid": GridShape(**facts["grid"]), "hidden": tuple(facts["hidden"])})


class ColorField:
    """A hash grid, a network, and an embedding of each of `num_views` photographs, with their optimiser's moments.

    frame: BOUNDS_DTYPE scalar, where the scene lies. rows: splats that can be evaluated at once. The tables are read in
    half precision; a field as it begins leaves every colour as it is.
    """

    def __init__(
        self, backend: Backend, shape: FieldShape, frame: np.ndarray, num_views: int, rows: int,
        random: np.random.Generator,
    ) -> None:  # fmt: skip
        self.backend, self.shape, self.frame, self.num_views = backend, shape, frame, num_views
        self._bounds = backend.upload(np.frombuffer(frame.tobytes(), np.float32).copy())  # what a checkpoint keeps
        self.grid = HashGrid(backend, shape.grid, random, half=True)
        self.network = Network(backend, shape.widths, rows, random, zero_outputs=True)
        start = random.normal(0, EMBEDDING_SIZE, (num_views, max(shape.appearance, 1)))
        self.embeddings = Parameters(backend, start[:, : shape.appearance])

    @property
    def rows(self) -> int:
        return self.network.rows

    def with_rows(self, rows: int) -> ColorField:
        """The same field, for so many splats at once: it shares all that is trained."""
        other = copy.copy(self)
        other.network = copy.copy(self.network)
        other.network.resize(rows)
        return other

    def parts(self) -> dict[str, Parameters]:
        """What is trained, by name."""
        return {"tables": self.grid.parameters, "network": self.network.parameters, "embeddings": self.embeddings}

    def arrays(self) -> dict[str, Any]:
        """Everything that the next steps depend on, by name."""
        parts = self.parts()
        trained = {f"field_{part}_{name}": array for part in parts for name, array in parts[part].arrays().items()}
        return trained | {"field_bounds": self._bounds}

    def refresh(self) -> None:
        """Bring derived state up to date after the arrays were written to."""
        self.grid.parameters.refresh()
        self.frame = self.backend.download(self._bounds).view(BOUNDS_DTYPE).reshape(())

    def step(self, state: IterState) -> None:
        """A step of Adam: of the table entries and photographs that were seen, and of the whole network."""
        self.grid.parameters.adam_flat(state, RATE, sparse=True)
        self.network.parameters.adam_flat(state, RATE, factor=NETWORK_RATE)
        if self.shape.appearance:
            self.embeddings.adam_flat(state, RATE, sparse=True, factor=EMBEDDING_RATE)

    def forget_gradients(self) -> None:
        """Drop what backward passes have added up."""
        for parameters in self.parts().values():
            parameters.gradients.fill(0)

    def embedding_rows(self) -> np.ndarray:
        """Embeddings of all photographs, float32 [num_views, appearance]."""
        size = self.shape.appearance
        return self.backend.download(self.embeddings.values)[: self.num_views * size].reshape(self.num_views, size)

"""The hash encoding against its reference, and the reference's gradients against central differences."""

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.field.hash_grid import GridShape, HashGrid
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import hash_grid as reference

SHAPES = [
    GridShape(2, levels=4, table_size=2**8, features=2, base_resolution=2, growth=2.2),  # direct and hashed levels
    GridShape(3, levels=5, table_size=2**9, features=2, base_resolution=3, growth=1.7),
    GridShape(3, levels=3, table_size=1000, features=4, base_resolution=6, growth=2.0),  # not a power of two
    GridShape(3, levels=2, table_size=2**6, features=1, base_resolution=4, growth=1.5),
]
NUM, SPARE = 700, 37  # points, and rows past them


class Case:
    """A grid with large entries, and points: most inside, some on the border or outside."""

    def __init__(self, backend: Backend, shape: GridShape, half: bool = False) -> None:
        rng = np.random.default_rng(0)
        self.backend, self.shape = backend, shape
        self.grid = HashGrid(backend, shape, rng, half)
        values = rng.normal(size=len(self.grid.parameters)).astype(np.float32)
        if half:
            values = values.astype(np.float16).astype(np.float32)
        self.grid.parameters.load({"values": values, "moments1": 0 * values, "moments2": 0 * values})
        self.points = rng.uniform(0.0, 1.0, (NUM, shape.dimensions)).astype(np.float32)
        self.points[:5] = [[0.0], [1.0], [-0.5], [1.5], [0.5]]
        planes = np.full((shape.dimensions, NUM + SPARE), np.nan, np.float32)
        planes[:, :NUM] = self.points.T
        self.positions, self.num_rows = backend.upload(planes), backend.upload(np.array([NUM], np.uint32))
        self.expected = reference.Grid(
            shape.dimensions, shape.levels, shape.table_size, shape.features, shape.base_resolution, shape.growth
        )
        ends = np.cumsum(self.expected.sizes())[:-1]
        entries = values[: shape.num_entries * shape.features].reshape(-1, shape.features)
        self.tables = [table.astype(np.float64) for table in np.split(entries, ends)]
        self.d_features = rng.normal(size=(NUM, shape.width))

    def planes(self, width: int) -> np.ndarray:
        return self.backend.upload(np.full((width, NUM + SPARE), 7.0, np.float32))

    def d_planes(self) -> np.ndarray:
        planes = np.full((self.shape.width, NUM + SPARE), np.nan, np.float32)
        planes[:, :NUM] = self.d_features.T
        return self.backend.upload(planes)


@pytest.fixture(params=SHAPES, ids=lambda shape: f"{shape.dimensions}d-{shape.features}f")
def shape(request: pytest.FixtureRequest) -> GridShape:
    return request.param


@pytest.mark.parametrize("half", [False, True], ids=["float32", "half"])
def test_encode(backend: Backend, comparison: Comparison, shape: GridShape, half: bool) -> None:
    case = Case(backend, shape, half)
    features = case.planes(shape.width)
    case.grid.encode(case.positions, case.num_rows, features)
    actual = backend.download(features)
    expected = reference.encode(case.expected, case.tables, case.points.astype(np.float64))
    comparison.check("hash_encode", "features", actual[:, :NUM].T, expected, FORWARD)
    assert (actual[:, NUM:] == 7).all()


def test_backward(backend: Backend, comparison: Comparison, shape: GridShape) -> None:
    """Gradients of the tables, which accumulate."""
    case = Case(backend, shape)
    for _ in range(2):
        case.grid.backward(case.positions, case.num_rows, case.d_planes())
    expected = reference.backward(case.expected, case.tables, case.points.astype(float), case.d_features)
    d_tables = np.concatenate(expected).ravel()
    actual = backend.download(case.grid.parameters.gradients)[: d_tables.size]
    comparison.check("hash_encode_backward", "d tables", actual, 2 * d_tables, BACKWARD)


def test_reference_against_central_differences() -> None:
    rng = np.random.default_rng(1)
    grid = reference.Grid(3, levels=3, table_size=50, features=2, base=2, growth=1.9)
    tables = [rng.normal(size=(size, 2)) for size in grid.sizes()]
    points, d_features, h = rng.uniform(0.05, 0.95, (40, 3)), rng.normal(size=(40, 6)), 1e-7
    d_tables = reference.backward(grid, tables, points, d_features)
    for level, entry, feature in ((0, 3, 1), (1, 20, 0), (2, 49, 1)):
        values = []
        for sign in (1, -1):
            moved = [table.copy() for table in tables]
            moved[level][entry, feature] += sign * h
            values.append((reference.encode(grid, moved, points) * d_features).sum())
        assert (values[0] - values[1]) / (2 * h) == pytest.approx(d_tables[level][entry, feature], rel=1e-5, abs=1e-6)


def test_tables_start_with_small_entries_and_fit_their_grids(backend: Backend) -> None:
    shape = GridShape(2, levels=3, table_size=2**10, features=2, base_resolution=4, growth=4.0)
    grid = HashGrid(backend, shape, np.random.default_rng(0))
    levels = shape.level_table()
    assert levels["resolution"].tolist() == [4, 16, 64]
    assert levels["size"].tolist() == [25, 289, 1024]
    assert levels["hashed"].tolist() == [0, 0, 1]
    values = backend.download(grid.parameters.values)
    assert 0.9e-4 < np.abs(values).max() <= 1e-4
    assert len(values) == 2 * (25 + 289 + 1024)

"""The colour field in the rasterizer against its reference, and the reference against central differences."""

import dataclasses

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.field.color_field import BOUNDS_DTYPE, ColorField, FieldShape, field_bounds
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.hash_grid import GridShape
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.field.test_network import gradients_of, layers_of
from tests.reference import color_field as reference
from tests.reference import hash_grid
from tests.reference.project import Options
from tests.reference.random_scene import hard_scene
from tests.render.on_device import VIEW, OnDevice, on_device

GRID = GridShape(3, levels=3, table_size=2**8, features=2, base_resolution=3, growth=1.8)
SHAPE = FieldShape(GRID, direction_degree=3, hidden=(16, 16), appearance=5)
FRAME = np.array(([0.2, -0.1, 3.0], 1 / 1.5), BOUNDS_DTYPE)


class Case:
    """A hard scene with a field of large random values, on the device and for the reference."""

    def __init__(self, backend: Backend, shape: FieldShape = SHAPE, sh_degree: int = 0) -> None:
        rng = np.random.default_rng(0)
        self.scene, self.sh_degree = hard_scene(1), sh_degree
        self.features = np.random.default_rng(3).normal(size=(self.scene.splats.num, shape.features)).astype(np.float32)
        self.device: OnDevice = on_device(backend, self.scene, Options(sh_degree=sh_degree), features=self.features)
        num_views = len(self.device.cameras.views)
        self.field = ColorField(backend, shape, FRAME, num_views, self.device.splats.capacity, rng)
        for parameters in self.field.parts().values():
            values = rng.normal(0, 0.5, len(parameters)).astype(np.float16).astype(np.float32)
            parameters.load({"values": values, "moments1": 0 * values, "moments2": 0 * values})
        self.coloring = FieldColoring(self.field)
        self.coloring.resize(self.device.splats.capacity)
        self.device.forward()
        self.rows = self.device.visible()

    def forward(self) -> np.ndarray:
        """Colours [visible, 3]"""
        device = self.device
        self.coloring.forward(device.splats, device.cameras, device.state, device.projection)
        return device.download(device.projection.colors)[: len(self.rows)][self.rows, :3]

    def backward(self, d_colors: np.ndarray) -> None:
        device = self.device
        device.projection.d_splats[...] = np.nan
        rows = np.flatnonzero(self.rows)
        device.projection.d_splats[rows, 6:9] = device.backend.upload(d_colors.astype(np.float32))
        self.coloring.backward(device.splats, device.cameras, device.state, device.projection)

    def reference(self) -> tuple[reference.Field, np.ndarray, np.ndarray, np.ndarray]:
        """The field, means and harmonics of the visible splats, and the camera's centre."""
        download = self.device.backend.download
        grid = hash_grid.Grid(3, GRID.levels, GRID.table_size, GRID.features, GRID.base_resolution, GRID.growth)
        values = download(self.field.grid.parameters.values).astype(float)[: GRID.num_entries * GRID.features]
        tables = np.split(values.reshape(-1, GRID.features), np.cumsum(grid.sizes())[:-1])
        embedding = self.field.embedding_rows()[VIEW].astype(float)
        field = reference.Field(
            grid,
            tables,
            layers_of(self.field.network),
            embedding,
            self.field.shape.direction_degree,
            FRAME["center"].astype(float),
            1 / float(FRAME["inv_radius"]),
            self.features[self.rows].astype(float),
        )
        splats = self.scene.splats
        w2c = self.scene.camera.w2c
        camera = -w2c[:3, :3].T @ w2c[:3, 3]
        harmonics = np.concatenate([splats.sh0[:, None], splats.shN], axis=1)[:, : (self.sh_degree + 1) ** 2]
        means, harmonics = (array.astype(np.float32).astype(float)[self.rows] for array in (splats.means, harmonics))
        return field, means, harmonics, camera


@pytest.mark.parametrize(("num_features", "sh_degree"), [(0, 0), (3, 2)])
def test_colors_and_gradients(backend: Backend, comparison: Comparison, num_features: int, sh_degree: int) -> None:
    """With default settings, and with features and harmonics of splats."""
    case = Case(backend, dataclasses.replace(SHAPE, features=num_features), sh_degree)
    colors = case.forward()
    field, means, harmonics, camera = case.reference()
    seen = reference.forward(field, means, harmonics, camera)
    assert (seen.colors == 0).any()
    comparison.check("field_colors", "colors", colors, seen.colors, FORWARD)

    d_colors = np.random.default_rng(1).normal(size=colors.shape)
    case.backward(d_colors)
    expected = reference.backward(field, seen, d_colors)
    download = backend.download
    d_own = download(case.device.projection.d_splats)[: len(case.rows)][case.rows, 6:9]
    comparison.check("field_colors_backward", "d own colour", d_own * (colors > 0), expected.own, BACKWARD)
    assert d_own.all()  # project_backward treats splats without gradients as unseen, except splats with clamped colours
    d_tables = np.concatenate(expected.tables).ravel()
    actual = download(case.field.grid.parameters.gradients)[: d_tables.size]
    comparison.check("color field", "d tables", actual, d_tables, BACKWARD)
    for found, wanted in zip(gradients_of(case.field.network), expected.layers, strict=True):
        comparison.check("color field", "d weights", found, wanted, BACKWARD)
    d_embeddings = download(case.field.embeddings.gradients)[: 2 * SHAPE.appearance].reshape(2, -1)
    comparison.check("embedding_backward", "d embedding", d_embeddings[VIEW], expected.embedding, BACKWARD)
    assert not d_embeddings[1 - VIEW].any()
    d_features = download(case.coloring.d_features)[:, : len(case.rows)].T
    if num_features:
        comparison.check("add_feature_gradients", "d features", d_features[case.rows], expected.features, BACKWARD)
        assert not d_features[~case.rows].any()


def test_reference_against_central_differences() -> None:
    rng = np.random.default_rng(0)
    grid = hash_grid.Grid(3, levels=2, table_size=60, features=2, base=2, growth=2.0)
    layers = [rng.normal(size=(4 + 9 + 2 + 2 + 1, 16)), rng.normal(size=(17, 6))]
    tables = [rng.normal(size=(size, 2)) for size in grid.sizes()]
    field = reference.Field(grid, tables, layers, rng.normal(size=2), 3, np.array([0.1, 0.2, 0.3]), 0.8)
    field.features = rng.normal(size=(30, 2))
    means, sh0, camera = rng.normal(size=(30, 3)), rng.normal(size=(30, 1, 3)), np.array([0.0, 0.5, -4.0])
    d_colors, h = rng.normal(size=(30, 3)), 1e-7
    gradients = reference.backward(field, reference.forward(field, means, sh0, camera), d_colors)

    def slope(array: np.ndarray, index: tuple[int, ...]) -> float:
        sums = []
        for sign in (1, -1):
            array[index] += sign * h
            sums.append((reference.forward(field, means, sh0, camera).colors * d_colors).sum())
            array[index] -= sign * h
        return (sums[0] - sums[1]) / (2 * h)

    d_sh0 = reference.sh.C0 * gradients.own[:, None]
    pairs = [(sh0, d_sh0), (field.embedding, gradients.embedding)]
    pairs.append((field.features, gradients.features))
    for array, gradient in [*pairs, *zip(tables, gradients.tables, strict=True)]:
        for index in zip(*(rng.integers(size, size=6) for size in array.shape), strict=True):
            assert slope(array, index) == pytest.approx(gradient[index], rel=1e-4, abs=1e-5)


def test_a_new_field_and_a_halted_step_change_nothing(backend: Backend) -> None:
    case = Case(backend)
    before = backend.download(case.device.projection.colors)
    fresh = ColorField(backend, SHAPE, FRAME, 2, case.device.splats.capacity, np.random.default_rng(0))
    case.coloring = FieldColoring(fresh)
    case.coloring.resize(case.device.splats.capacity)
    case.forward()
    np.testing.assert_allclose(
        backend.download(case.device.projection.colors)[: len(case.rows)][case.rows],
        before[: len(case.rows)][case.rows],
        rtol=1e-6,
        atol=3e-8,  # a colour is 0.5 plus a sum: half a unit in the last place of 0.5
    )
    case.device.state.write(overflowed=1)
    case.forward()
    case.backward(np.ones((int(case.rows.sum()), 3)))
    assert not any(backend.download(parameters.gradients).any() for parameters in fresh.parts().values())


def test_a_field_without_appearance_has_no_embeddings(backend: Backend, comparison: Comparison) -> None:
    case = Case(backend, dataclasses.replace(SHAPE, appearance=0))
    expected = reference.forward(*case.reference()).colors
    comparison.check("field_colors", "colors, no appearance", case.forward(), expected, FORWARD)
    assert case.field.embedding_rows().shape == (2, 0)


def test_frame_covers_most_points() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal([1, 2, 3], 0.5, (1000, 3))
    points[:50] *= 1e6
    points[50] = np.nan
    frame = field_bounds(points)
    np.testing.assert_allclose(frame["center"], [1, 2, 3], atol=0.1)
    assert 0.5 < 1 / frame["inv_radius"] < 1.5

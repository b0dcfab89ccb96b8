"""Bilateral grids: pictures, gradients and steps against the reference; the reference against central differences."""

import numpy as np
import pytest

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend
from splat_cli.joint.appearance.bilateral_grid import GRID_SHAPE, BilateralGridLoss
from splat_cli.joint.joint_model import Decay
from splat_cli.render.camera import CameraTable
from splat_cli.scene.view import View
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.joint.passed_loss import PassedLoss
from tests.reference import adam, bilateral_grid, ssim_loss
from tests.reference.pipeline import central_difference

DECAY, SMOOTHNESS, WEIGHT, SSIM_WEIGHT = Decay(first=1e-2, last=1e-3, steps=100), 30.0, 0.3, 0.2
SIZES = [(50, 37), (64, 32), (5, 3), (301, 200), (1, 40)]
MATRICES = (*GRID_SHAPE[:3], 3, 4)


def some_case(width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A picture [3, H, W] with values outside 0 to 1, a similar photograph uint8 [H, W, 3], and a grid."""
    rng = np.random.default_rng(width)
    photograph = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    image = (0.7 * photograph / 255 + rng.uniform(-0.3, 0.7, photograph.shape)).transpose(2, 0, 1)
    image[:, 0, 0], image[:, -1, -1] = -0.1, 1.2
    return image.astype(np.float32).astype(float), photograph, rng.normal(0, 0.1, MATRICES).astype(np.float32)


def test_reference_against_central_differences() -> None:
    image, photograph, grid = some_case(9, 7)
    grid = grid.astype(float)

    def loss_of(image: np.ndarray, grid: np.ndarray) -> float:
        changed = bilateral_grid.forward(image, grid)
        return ssim_loss.loss(changed, photograph, SSIM_WEIGHT).value + SMOOTHNESS * bilateral_grid.roughness(grid)

    d_changed = ssim_loss.loss(bilateral_grid.forward(image, grid), photograph, SSIM_WEIGHT).d_image
    d_image, d_grid = bilateral_grid.backward(image, grid, d_changed)
    d_grid = d_grid + SMOOTHNESS * bilateral_grid.d_roughness(grid)
    rng = np.random.default_rng(0)
    for _ in range(4):
        moves = rng.normal(size=image.shape), rng.normal(size=grid.shape)
        by_image = central_difference(lambda x: loss_of(x, grid), image, moves[0])
        by_grid = central_difference(lambda g: loss_of(image, g), grid, moves[1])
        np.testing.assert_allclose(
            [(d_image * moves[0]).sum(), (d_grid * moves[1]).sum()], [by_image, by_grid], rtol=1e-5, atol=1e-7
        )


class Changed(PassedLoss):
    """The second of two views, changed by a grid, after a forward and a backward pass."""

    def __init__(self, backend: Backend, size: tuple[int, int]) -> None:
        self.image, self.photograph, self.grid = some_case(*size)
        views = [View("view", None, *size, 1.0, 1.0, 0.0, 0.0, np.eye(4))] * 2
        cameras = CameraTable(backend, views, [backend.upload(self.photograph)] * 2)
        loss = BilateralGridLoss(backend, cameras, SSIM_WEIGHT, DECAY, WEIGHT, DECAY, SMOOTHNESS)
        self.exposure = np.random.default_rng(1).normal(0, 0.1, (3, 4)).astype(np.float32)
        loss.exposures[1, 0] = backend.upload(self.exposure.ravel())
        loss.grids[1, 0] = backend.upload(self.grid.reshape(GRID_SHAPE))
        super().__init__(backend, loss, self.image)
        self.loss.step(self.state)


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
def test_picture_and_gradients(backend: Backend, comparison: Comparison, size: tuple[int, int]) -> None:
    case = Changed(backend, size)
    grid = case.grid.astype(float) + case.exposure
    changed = bilateral_grid.forward(case.image, grid)
    comparison.check("bilateral_grid", "picture", case.download(case.loss.corrected), changed.ravel(), FORWARD)
    d_changed = ssim_loss.loss(changed, case.photograph, SSIM_WEIGHT).d_image
    d_image, d_grid = bilateral_grid.backward(case.image, grid, d_changed)
    comparison.check("bilateral_grid_backward", "d image", case.download(case.d_image), d_image.ravel(), BACKWARD)
    d_exposure = case.download(case.loss.d_exposure).sum(axis=0)
    comparison.check("bilateral_grid_backward", "d exposure", d_exposure, d_grid.sum(axis=(0, 1, 2)).ravel(), BACKWARD)
    d_grid += SMOOTHNESS * bilateral_grid.d_roughness(grid)
    comparison.check(
        "bilateral_grid_gradient", "d grid", case.download(case.loss.d_grid).ravel(), d_grid.ravel(), BACKWARD
    )


def test_step(backend: Backend, comparison: Comparison) -> None:
    case = Changed(backend, SIZES[0])
    gradient, start = case.download(case.loss.d_grid).ravel(), case.grid.ravel().astype(float)
    zeros, rate = np.zeros((start.size, 1)), DECAY.first * (DECAY.last / DECAY.first) ** (6 / DECAY.steps)
    round_of_view = 3  # two views, step 6
    moved = adam.step(start[:, None], gradient[:, None], zeros, zeros, np.full(start.size, rate), round_of_view)
    actual = case.download(case.loss.grids).reshape(2, 3, -1)
    comparison.check("step_bilateral_grid", "update", actual[1, 0] - start, moved[0][:, 0] - start, BACKWARD)
    comparison.check("step_bilateral_grid", "moments", actual[1, 1:].T, np.stack(moved[1:])[:, :, 0].T, FORWARD)
    assert not actual[0].any()


@pytest.mark.parametrize("broken", [{"overflowed": 1}, {"loss_ssim": np.nan}])
def test_nothing_moves_in_a_skipped_step(backend: Backend, broken: dict) -> None:
    case = Changed(backend, SIZES[2])
    case.state.write(**broken)
    before = case.download(case.loss.grids)
    case.loss.step(case.state)
    np.testing.assert_array_equal(case.download(case.loss.grids), before)


def test_a_nonfinite_gradient_keeps_its_value(backend: Backend) -> None:
    case = Changed(backend, SIZES[2])
    before = case.download(case.loss.grids)
    case.loss.d_exposure[...] = np.nan
    case.loss.step(case.state)
    np.testing.assert_array_equal(case.download(case.loss.grids), before)


def test_constraint_keeps_differences_between_views_and_places(backend: Backend) -> None:
    loss = Changed(backend, (5, 3)).loss
    before = loss.backend.download(loss.grids)[:, 0]
    loss.constrain()
    after = loss.backend.download(loss.grids)[:, 0]
    np.testing.assert_allclose(after.mean(axis=(0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(after[1] - after[0], before[1] - before[0], atol=1e-6)
    np.testing.assert_allclose(after[0, :, 1:] - after[0, :, :-1], before[0, :, 1:] - before[0, :, :-1], atol=1e-6)


def test_memory_cost_equals_the_allocation(backend: Backend) -> None:
    loss = Changed(backend, (50, 37)).loss
    cost = BilateralGridLoss.memory_cost(ResolvedConfig(appearance="grid"), num_views=2)
    assert cost.fixed == sum(array.nbytes for array in (loss.grids, loss.d_exposure, loss.d_grid))
    assert cost.per_pixel * 50 * 37 == loss.corrected.nbytes

"""Bilateral grids, one per photograph: host side of cuda_src/optim/bilateral_grid.cu and step_bilateral_grid.cu."""

from __future__ import annotations

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend, DeviceArray, MemoryCost, Unit, ceil_div
from splat_cli.joint.appearance.exposure import ExposureLoss
from splat_cli.joint.joint_model import Decay, JointInputs
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState

LEVELS, HEIGHT, WIDTH, AFFINE = GRID_SHAPE = (8, 16, 16, 12)  # as in cuda_src/optim/bilateral_grid.cuh
NUM_VALUES = LEVELS * HEIGHT * WIDTH * AFFINE
PATCHES = (WIDTH - 1, HEIGHT - 1)  # rectangles between four nodes
_FINAL_RATE = 0.1  # relative to the initial learning rate
_THREADS = 128


class BilateralGridLoss(ExposureLoss):
    """Colour correction y = x + (E + D) (x, 1), with D interpolated in a grid over the picture and luminance.

    E: the exposure of ExposureLoss, common to all nodes, so nodes do not have to learn it. grids:
    float32 [num_views, 3, 8, 16, 16, 12]: D by level, row and column as three rows of three factors and an offset, then
    Adam's first and second moments; initially zero. smoothness: weight of the mean squared difference between
    neighbours along each axis.
    """

    def __init__(
        self,
        backend: Backend,
        cameras: CameraTable,
        ssim_weight: float,
        decay: Decay,
        weight: float,
        grid_decay: Decay,
        smoothness: float,
    ) -> None:
        super().__init__(backend, cameras, ssim_weight, decay, weight)
        self.grid_decay, self.smoothness = grid_decay, smoothness
        self.grids = backend.xp.zeros((len(cameras.views), 3, *GRID_SHAPE), "float32")
        self.d_exposure = backend.xp.zeros((PATCHES[1] * PATCHES[0] * LEVELS * 4, AFFINE), "float32")
        self.d_grid = backend.xp.zeros(GRID_SHAPE, "float32")

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.appearance == "grid"

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [(f"optim/{name}", {}) for name in ("bilateral_grid", "step_bilateral_grid", "step_exposure")]

    @classmethod
    def make(cls, inputs: JointInputs) -> BilateralGridLoss:
        config = inputs.config
        decay = Decay(config.lr_exposure, config.lr_exposure_final, config.steps)
        grid_decay = Decay(config.lr_grid, _FINAL_RATE * config.lr_grid, config.steps)
        return cls(
            inputs.backend,
            inputs.cameras,
            config.ssim_weight,
            decay,
            config.exposure_reg,
            grid_decay,
            config.grid_smoothness,
        )

    @staticmethod
    def memory_cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        sums = 4 * (PATCHES[0] * PATCHES[1] * LEVELS * 4 * AFFINE + NUM_VALUES)
        return MemoryCost(fixed=3 * 4 * NUM_VALUES * num_views + sums, per_pixel=12)

    def apply(self, state: IterState, image: DeviceArray) -> None:
        params = self.exposures, self.grids
        self.backend.kernel("optim/bilateral_grid", "apply_bilateral_grid")(
            PATCHES, (32, LEVELS), self.cameras.array, state.array, *params, image, self.corrected
        )

    def apply_backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """See AppearanceLoss. Writes sums for the corners of patches to d_exposure."""
        params = self.exposures, self.grids
        self.backend.kernel("optim/bilateral_grid", "apply_bilateral_grid_backward")(
            PATCHES, (32, LEVELS), self.cameras.array, state.array, *params, image, d_image, self.d_exposure
        )

    def step(self, state: IterState) -> None:
        """One Adam step on exposure and grid of the state's view. Leaves the grid's gradient in d_grid."""
        super().step(state)
        kernel, blocks = self.backend.kernel, (ceil_div(NUM_VALUES, _THREADS),)
        kernel("optim/step_bilateral_grid", "bilateral_grid_gradient")(
            blocks, (_THREADS,), state.array, self.d_exposure, float(self.smoothness), self.grids, self.d_grid
        )
        kernel("optim/step_bilateral_grid", "step_bilateral_grid")(
            blocks, (_THREADS,), state.array, self.d_grid, len(self.grids), *self.grid_decay, self.grids
        )

    def arrays(self) -> dict[str, DeviceArray]:
        return super().arrays() | {"grids": self.grids}

    def constrain(self) -> None:
        """Subtract the mean over views and nodes at each level, so that the splats show the mean photograph.

        Differences between places that all views share, such as vignetting, remain.
        """
        super().constrain()
        differences = self.grids[:, 0]
        differences -= differences.mean(axis=(0, 2, 3), keepdims=True)[0]

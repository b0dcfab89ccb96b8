"""Mask of transient objects in the loss: host side of cuda_src/optim/outliers.cu."""

from __future__ import annotations

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend, DeviceArray, MemoryCost, Unit, ceil_div
from splat_cli.joint.joint_model import PIXEL_BLOCKS, JointInputs, JointModel
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState

WARM_UP = 0.1  # fraction of the steps without a mask
QUANTILE = 0.75  # quantile of the residuals of all views; the threshold is a multiple of it
FRACTION = 0.4  # a pixel is an outlier if this fraction of its neighbours exceeds the threshold (RobustNeRF)
_WIDTH, _HEIGHT, _WARPS, _BINS = 32, 16, 8, 128  # as in the kernels
_MEMORY = 100  # maximum number of views that the histogram averages over


class OutlierMask(JointModel):
    """Mask of outlying pixels of the state's view: residuals above a threshold learned from all views.

    outliers: uint8 [max_pixels], 1 for ignored pixels. learned: float32 [129], the threshold (mean absolute difference
    of a pixel's channels) and the histogram of residuals that determines it. factor: threshold relative to the
    quantile. start: number of steps without a mask.
    """

    ROLE = "mask"

    def __init__(self, backend: Backend, cameras: CameraTable, factor: float, start: int) -> None:
        self.backend, self.cameras, self.factor, self.start = backend, cameras, factor, start
        self.keep = 1 - 1 / min(max(len(cameras.views), 2), _MEMORY)
        self.outliers = backend.xp.zeros(cameras.max_pixels, "uint8")
        self.learned = backend.xp.zeros(1 + _BINS, "float32")
        self.counts = backend.xp.zeros(_BINS, "uint32")

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.robust

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/outliers", {})]

    @classmethod
    def make(cls, inputs: JointInputs) -> OutlierMask:
        config = inputs.config
        return cls(inputs.backend, inputs.cameras, config.robust_threshold, round(WARM_UP * config.steps))

    @staticmethod
    def memory_cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        return MemoryCost(per_pixel=1)

    def find(self, state: IterState, image: DeviceArray) -> None:
        """Mark the outliers of a rendered image, float32 planes [3, H, W], after its colour correction."""
        extent = self.cameras.extent
        grid = ceil_div(extent.width, _WIDTH), ceil_div(extent.height, _HEIGHT)
        arrays = self.cameras.array, state.array, self.learned, self.start, FRACTION, image, self.outliers
        self.backend.kernel("optim/outliers", "find_outliers")(grid, (32, _WARPS), *arrays)

    def learn(self, state: IterState, image: DeviceArray) -> None:
        """Update histogram and threshold with the image's residuals."""
        self.backend.kernel("optim/outliers", "count_residuals")(
            (PIXEL_BLOCKS,), (32, _WARPS), self.cameras.array, state.array, image, self.counts
        )
        arrays = self.cameras.array, state.array, self.keep, QUANTILE, self.factor, self.counts, self.learned
        self.backend.kernel("optim/outliers", "learn_threshold")((1,), (32, _BINS // 32), *arrays)

    def arrays(self) -> dict[str, DeviceArray]:
        return {"outlier_threshold": self.learned}

"""Exposure of the training photographs: host side of cuda_src/optim/exposure.cu and step_exposure.cu."""

from __future__ import annotations

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, DeviceArray, Unit
from splat_cli.joint.joint_model import PIXEL_BLOCKS, PIXEL_WARPS, SUM_THREADS, Decay, JointInputs
from splat_cli.joint.loss import AppearanceLoss
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState


class ExposureLoss(AppearanceLoss):
    """Colour correction by one affine map per view, y = x + D (x, 1).

    exposures: float32 [num_views, 3, 12]: D as three rows of three factors and an offset, then Adam's first and second
    moments; initially zero. `weight` times |D|^2 is added to the loss.
    """

    def __init__(self, backend: Backend, cameras: CameraTable, ssim_weight: float, decay: Decay, weight: float) -> None:
        super().__init__(backend, cameras, ssim_weight)
        self.decay, self.weight = decay, weight
        self.exposures = backend.xp.zeros((len(cameras.views), 3, 12), "float32")
        self.d_exposure = backend.xp.zeros((PIXEL_BLOCKS * PIXEL_WARPS, 12), "float32")

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.appearance == "exposure"

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/exposure", {}), ("optim/step_exposure", {})]

    @classmethod
    def make(cls, inputs: JointInputs) -> ExposureLoss:
        config = inputs.config
        decay = Decay(config.lr_exposure, config.lr_exposure_final, config.steps)
        return cls(inputs.backend, inputs.cameras, config.ssim_weight, decay, config.exposure_reg)

    def apply(self, state: IterState, image: DeviceArray) -> None:
        self.backend.kernel("optim/exposure", "apply_exposure")(
            (PIXEL_BLOCKS,), (32, PIXEL_WARPS), self.cameras.array, state.array, self.exposures, image, self.corrected
        )

    def apply_backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """See AppearanceLoss. Writes rows of sums to d_exposure [.., 12]."""
        arrays = self.cameras.array, state.array, self.exposures, image, d_image, self.d_exposure
        kernel = self.backend.kernel("optim/exposure", "apply_exposure_backward")
        kernel((PIXEL_BLOCKS,), (32, PIXEL_WARPS), *arrays)

    def step(self, state: IterState) -> None:
        """One Adam step on the exposure of the state's view."""
        sums, weight = (self.d_exposure, len(self.d_exposure)), float(self.weight)
        kernel, block = self.backend.kernel("optim/step_exposure", "step_exposure"), (SUM_THREADS[self.backend.name],)
        kernel((1,), block, state.array, *sums, len(self.exposures), weight, *self.decay, self.exposures)

    def arrays(self) -> dict[str, DeviceArray]:
        return {"exposures": self.exposures}

    def constrain(self) -> None:
        """Subtract the mean exposure, so that the splats, evaluated without exposures, show the mean photograph."""
        differences = self.exposures[:, 0]
        differences -= differences.mean(axis=0)

    def matrices(self) -> np.ndarray:
        """Affine colour maps of the views, float32 [num_views, 3, 4]: rows of three factors and an offset."""
        differences = self.backend.download(self.exposures)[:, 0].reshape(-1, 3, 4)
        return differences + np.eye(3, 4, dtype=np.float32)

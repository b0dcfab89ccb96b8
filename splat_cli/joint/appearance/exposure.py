"""Exposure of the training photographs: host side of cuda_src/optim/exposure.cu and step_exposure.cu; its spread."""

from __future__ import annotations

from functools import cache

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, DeviceArray, Unit, ceil_div
from splat_cli.joint.joint_model import PIXEL_BLOCKS, PIXEL_WARPS, SUM_THREADS, Decay, JointInputs
from splat_cli.joint.loss import AppearanceLoss
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import evenly_spread

_COMPARED, _POINTS = 100, 2_000  # maximum numbers of pairs of photographs, and of points
_SHARED, _PAIRS = 30, 5  # minimum numbers of common points of a pair, and of pairs
_EXPOSED = (12, 243)  # levels that are neither black nor saturated


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


def exposure_spread(photographs: ImageSet, points: np.ndarray) -> float:
    """Median difference in exposure of small photographs by neighbouring cameras, as logarithm; 0 if it is unknown.

    A pair is compared at the points [P, 3] that both show; the median over points ignores occluded ones. Exposures that
    change slowly from camera to camera do not count: splats learn them as view-dependent colours.
    """
    if len(points) < _SHARED:
        return 0.0
    views, sample = photographs.views, points[:: ceil_div(len(points), _POINTS)]
    places = np.array([view.center for view in views])
    places /= max(np.median(np.linalg.norm(places - places.mean(axis=0), axis=1)), 1e-30)
    poses = np.concatenate([places, [view.w2c[2, :3] for view in views]], axis=1)  # and viewing directions
    brightness, found = cache(lambda index: _log_brightness(photographs, index, sample)), []
    for index in evenly_spread(range(len(views)), _COMPARED):
        distances = np.linalg.norm(poses - poses[index], axis=1)
        distances[index] = np.inf
        ratios = brightness(index) - brightness(int(distances.argmin()))
        ratios = ratios[np.isfinite(ratios)]
        if len(ratios) >= _SHARED:
            found.append(abs(float(np.median(ratios))))
    return float(np.median(found)) if len(found) >= _PAIRS else 0.0


def _log_brightness(photographs: ImageSet, index: int, points: np.ndarray) -> np.ndarray:
    """Logarithm of the brightness at points in a photograph, [P]; NaN where they are outside, masked or not exposed."""
    view, image, mask = photographs.views[index], photographs.images[index], photographs.masks[index]
    pixels, _, visible = view.project(points)
    x, y = pixels[visible].astype(int).T
    levels = image[y, x].mean(axis=1)
    used = (levels > _EXPOSED[0]) & (levels < _EXPOSED[1])
    if mask is not None:
        used &= mask[y, x] == 255
    found = np.full(len(points), np.nan)
    found[np.flatnonzero(visible)[used]] = np.log(levels[used])
    return found

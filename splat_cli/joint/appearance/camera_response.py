"""Vignetting and response of a camera, applied to images in NumPy (as in cuda_src/optim/isp.cuh)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

OVEREXPOSED_SLOPE = 0.1  # as in the kernels
_SHAPES = {"center": (2,), "vignetting": (3, 3), "response": (3, 2)}


@dataclass(frozen=True, eq=False)
class CameraResponse:
    """Vignetting and response curve of a camera.

    center: float [2], offset (x, y) of the optical centre from the middle of the image, in halves of its diagonal.
    vignetting: float [3, 3], factors of r^2, r^4 and r^6 per channel. response: float [3, 2], b1 and b2 per channel.
    """

    center: np.ndarray
    vignetting: np.ndarray
    response: np.ndarray

    @staticmethod
    def of(values: np.ndarray) -> CameraResponse:
        """From the kernels' 17 values: five per channel, then the centre."""
        channels = values[:15].reshape(3, 5).astype(np.float64)
        return CameraResponse(values[15:].astype(np.float64), channels[:, :3], channels[:, 3:])

    @staticmethod
    def mean(responses: Iterable[CameraResponse]) -> CameraResponse:
        """Mean over cameras, for a camera whose response is unknown."""
        rows = [(one.center, one.vignetting, one.response) for one in responses]
        return CameraResponse(*(np.mean(column, axis=0) for column in zip(*rows, strict=True)))

    @staticmethod
    def from_dict(content: Any) -> CameraResponse:
        """The response that `to_dict` returned. ValueError if `content` is not one."""
        try:
            arrays = {name: np.array(content[name], np.float64) for name in _SHAPES}
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError(f"expected a camera's {', '.join(_SHAPES)}") from None
        for name, shape in _SHAPES.items():
            if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"`{name}` of a camera is not {' x '.join(map(str, shape))} finite numbers")
        return CameraResponse(**arrays)

    def to_dict(self) -> dict[str, Any]:
        """The response as JSON values."""
        return {name: getattr(self, name).tolist() for name in _SHAPES}

    def apply(self, image: np.ndarray) -> np.ndarray:
        """The image float [H, W, 3] with vignetting and response applied."""
        height, width = image.shape[:2]
        radius = np.hypot(width, height) / 2
        x = (np.arange(width) + 0.5 - width / 2) / radius - self.center[0]
        y = (np.arange(height) + 0.5 - height / 2) / radius - self.center[1]
        r2 = (x[None, :] ** 2 + y[:, None] ** 2)[..., None]
        a, (b1, b2) = self.vignetting.T, self.response.T
        light = image * (1 + r2 * (a[0] + r2 * (a[1] + r2 * a[2])))
        inside = np.clip(light, 0, 1)
        bow, odd = inside * (1 - inside), 1 - 2 * inside
        slope = np.where(light > 1, OVEREXPOSED_SLOPE, 1 + b1 * odd + b2 * (1 - 6 * bow))
        return np.asarray(inside + bow * (b1 + b2 * odd) + slope * (light - inside), image.dtype)

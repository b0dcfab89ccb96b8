"""Photometric loss: L1 and SSIM with their gradient, host side of cuda_src/optim/l1_ssim.cu.

`AppearanceLoss` is the interface of losses that correct the image's colours first. Other terms of the loss:
docs/method.md, loss equation.
"""

from __future__ import annotations

from typing import Any

from splat_cli.config import ResolvedConfig
from splat_cli.device import Backend, DeviceArray, MemoryCost, ceil_div
from splat_cli.joint.joint_model import JointModel
from splat_cli.joint.outliers import OutlierMask
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState

WIDTH, HEIGHT = 32, 32  # px of a block, as in the kernel
WARPS = 8


class PhotometricLoss:
    """(1 - ssim_weight) L1 + ssim_weight (1 - SSIM) between a rendered image and the view's photograph.

    mask: finds outlying pixels, which the loss ignores, or None.
    """

    mask: OutlierMask | None = None

    def __init__(self, backend: Backend, cameras: CameraTable, ssim_weight: float) -> None:
        self.backend, self.cameras, self.ssim_weight = backend, cameras, ssim_weight
        self.allocate(1)

    def allocate(self, branches: int) -> None:
        """Allocate buffers for the losses of `branches` views at the same time."""
        self.d_maps: DeviceArray = None  # frees the former ones first, with the line below
        self._maps: DeviceArray = None
        self.d_maps = self.backend.xp.empty((branches, 9 * self.cameras.max_pixels), "float32")
        self.select(0)

    def select(self, branch: int) -> None:
        """Use the buffers of this branch from now on."""
        self._maps = self.d_maps[branch]

    @staticmethod
    def buffer_cost(branches: int) -> MemoryCost:
        """Device memory of the derivative maps."""
        return MemoryCost(per_pixel=9 * 4 * branches)

    def forward(self, state: IterState, image: DeviceArray, errors: DeviceArray | None = None) -> None:
        """Add the image's L1, L2 and SSIM to the sums in the state. image: float32 planes [3, H, W].

        errors: output float32 [3 * max_pixels], the loss of each value, or None.
        """
        if self.cameras.fetch_photograph:
            self.cameras.fetch_photograph(state)
        if self.mask:
            self.mask.find(state, image)
        kernel = self.backend.kernel("optim/l1_ssim", "l1_ssim")
        kernel(self._grid, (32, WARPS), *self._inputs(state), image, self._maps, errors)

    def backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """Write the gradient d_image [3, H, W], and the running mean of the loss. Must follow `forward`."""
        kernel = self.backend.kernel("optim/l1_ssim", "l1_ssim_backward")
        kernel(self._grid, (32, WARPS), *self._inputs(state), image, self._maps, d_image)
        if self.mask:
            self.mask.learn(state, image)

    @property
    def _grid(self) -> tuple[int, int, int]:
        extent = self.cameras.extent
        return ceil_div(extent.width, WIDTH), ceil_div(extent.height, HEIGHT), 3

    def _inputs(self, state: IterState) -> tuple[Any, ...]:
        outliers = self.mask.outliers if self.mask else None
        return self.cameras.array, state.array, float(self.ssim_weight), outliers


class AppearanceLoss(PhotometricLoss, JointModel):
    """Loss of a rendered image after a trained colour correction of its view; the splats are saved without it.

    corrected: the corrected image, float32 [3 * max_pixels].
    """

    ROLE = "loss"

    def __init__(self, backend: Backend, cameras: CameraTable, ssim_weight: float) -> None:
        super().__init__(backend, cameras, ssim_weight)
        self.corrected = backend.xp.empty(3 * cameras.max_pixels, "float32")

    @staticmethod
    def memory_cost(config: ResolvedConfig, num_views: int) -> MemoryCost:
        """See JointModel.memory_cost; counts `corrected`."""
        return MemoryCost(per_pixel=12)

    def apply(self, state: IterState, image: DeviceArray) -> None:
        """Queue the correction of the state's view: from image to `corrected`, float32 planes [3, H, W]."""
        raise NotImplementedError

    def apply_backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """Queue the backward pass: d_image becomes the gradient of `image` instead of `corrected`; sum gradients."""
        raise NotImplementedError

    def forward(self, state: IterState, image: DeviceArray, errors: DeviceArray | None = None) -> None:
        """See PhotometricLoss.forward; computed on the corrected image."""
        self.apply(state, image)
        super().forward(state, self.corrected, errors)

    def backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """See PhotometricLoss.backward; d_image is the gradient of the image before correction."""
        super().backward(state, self.corrected, d_image)
        self.apply_backward(state, image, d_image)

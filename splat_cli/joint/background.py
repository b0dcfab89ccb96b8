"""Learned background colour: host side of cuda_src/optim/background.cu and step_background.cu."""

from __future__ import annotations

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, DeviceArray, Unit
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.joint_model import PIXEL_BLOCKS, PIXEL_WARPS, SUM_THREADS, Decay, JointInputs, JointModel
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer

START = 0.5  # grey


class LearnedBackground(JointModel):
    """One background colour for all views, clamped to 0 to 1; initially grey.

    trained: float32 [1, 3, 3], the colour and Adam's first and second moments. shown: float32 [3] on the device, the
    background of the next step.
    """

    def __init__(self, backend: Backend, cameras: CameraTable, shown: DeviceArray, decay: Decay) -> None:
        self.backend, self.cameras, self.shown, self.decay = backend, cameras, shown, decay
        self.trained = backend.xp.zeros((1, 3, 3), "float32")
        self.trained[0, 0] = START
        self.d_background = backend.xp.zeros((PIXEL_BLOCKS * PIXEL_WARPS, 3), "float32")
        self.refresh()

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.background == "learned"

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/background", {}), ("optim/step_background", {})]

    @classmethod
    def make(cls, inputs: JointInputs) -> LearnedBackground:
        config = inputs.config
        decay = Decay(config.lr_background, config.lr_background / 10, config.steps)
        return cls(inputs.backend, inputs.cameras, inputs.background, decay)

    def arrays(self) -> dict[str, DeviceArray]:
        return {"background": self.trained}

    def refresh(self) -> None:
        """Copy the colour to `shown`."""
        self.shown[...] = self.trained[0, 0]

    def accumulate_gradients(self, splats: Splats, state: IterState, rasterizer: Rasterizer) -> None:
        """Sum the gradients in rendered.d_image into rows of d_background [.., 3]."""
        rendered = rasterizer.rendered
        arrays = self.cameras.array, state.array, rendered.final_T, rendered.d_image, self.d_background
        kernel = self.backend.kernel("optim/background", "background_backward")
        kernel((PIXEL_BLOCKS,), (32, PIXEL_WARPS), *arrays)

    def step(self, state: IterState) -> None:
        """One Adam step; takes effect in the next training step."""
        sums, block = (self.d_background, len(self.d_background)), (SUM_THREADS[self.backend.name],)
        kernel = self.backend.kernel("optim/step_background", "step_background")
        kernel((1,), block, state.array, *sums, *self.decay, self.trained, self.shown)

    def background_color(self) -> tuple[float, float, float]:
        """The current colour, 0 to 1."""
        red, green, blue = np.round(self.backend.download(self.trained)[0, 0].astype(float), 6).tolist()
        return red, green, blue

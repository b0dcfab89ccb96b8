"""ISP of the training photographs and their cameras: host side of cuda_src/optim/isp.cu and step_isp.cu."""

from __future__ import annotations

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend, DeviceArray, Unit
from splat_cli.joint.appearance.camera_response import CameraResponse
from splat_cli.joint.joint_model import PIXEL_BLOCKS, PIXEL_WARPS, SUM_THREADS, Decay, JointInputs, camera_rows
from splat_cli.joint.loss import AppearanceLoss
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState

PHOTO_VALUES, CAMERA_VALUES, SUMS = 13, 17, 29  # as in cuda_src/optim/isp.cuh
_FINAL_RATE = 0.1  # relative to the cameras' initial learning rate
_VISITS = 100  # visits per photograph; with fewer visits, the learning rate is higher


def photo_decay(config: ResolvedConfig, num_views: int) -> Decay:
    """Learning rates of exposures, higher in short runs: Adam moves a value by about the rate at each visit."""
    factor = max(_VISITS * num_views / config.steps, 1.0)
    return Decay(factor * config.lr_exposure, factor * config.lr_exposure_final, config.steps)


class IspLoss(AppearanceLoss):
    """Corrects colours by exposure and affine map of the photograph, and by vignetting and response of its camera.

    photo_params: float32 [num_views, 3, 13], camera_params: float32 [num_cameras, 3, 17]: values as in isp.cuh, then
    Adam's first and second moments; all zero at the start. photo_weight, camera_weight:
    weights of the sums of squares in the loss, which keep the values near zero. camera_ids: one per row of
    camera_params.
    """

    def __init__(
        self,
        backend: Backend,
        cameras: CameraTable,
        ssim_weight: float,
        photo_decay: Decay,
        photo_weight: float,
        camera_decay: Decay,
        camera_weight: float,
    ) -> None:
        super().__init__(backend, cameras, ssim_weight)
        self.photo_decay, self.photo_weight = photo_decay, photo_weight
        self.camera_decay, self.camera_weight = camera_decay, camera_weight
        self.camera_ids, self.camera_from_view = camera_rows(backend, cameras.views)
        self.photo_params = backend.xp.zeros((len(cameras.views), 3, PHOTO_VALUES), "float32")
        self.camera_params = backend.xp.zeros((len(self.camera_ids), 3, CAMERA_VALUES), "float32")
        self.camera_steps = backend.xp.zeros(len(self.camera_ids), "float32")
        self.d_isp = backend.xp.zeros((PIXEL_BLOCKS * PIXEL_WARPS, SUMS), "float32")

    @staticmethod
    def enabled(config: TrainConfig) -> bool:
        return config.appearance == "camera"

    @staticmethod
    def kernels(config: TrainConfig) -> list[Unit]:
        return [("optim/isp", {}), ("optim/step_isp", {})]

    @classmethod
    def make(cls, inputs: JointInputs) -> IspLoss:
        config = inputs.config
        camera_decay = Decay(config.lr_camera, _FINAL_RATE * config.lr_camera, config.steps)
        return cls(
            inputs.backend,
            inputs.cameras,
            config.ssim_weight,
            photo_decay(config, len(inputs.cameras.views)),
            config.exposure_reg,
            camera_decay,
            config.camera_reg,
        )

    def apply(self, state: IterState, image: DeviceArray) -> None:
        kernel = self.backend.kernel("optim/isp", "apply_isp")
        kernel((PIXEL_BLOCKS,), (32, PIXEL_WARPS), *self._isp_inputs(state), image, self.corrected)

    def apply_backward(self, state: IterState, image: DeviceArray, d_image: DeviceArray) -> None:
        """See AppearanceLoss. Leaves rows of sums in d_isp [.., 29]."""
        kernel = self.backend.kernel("optim/isp", "apply_isp_backward")
        kernel((PIXEL_BLOCKS,), (32, PIXEL_WARPS), *self._isp_inputs(state), image, d_image, self.d_isp)

    def _isp_inputs(self, state: IterState) -> tuple[DeviceArray, ...]:
        return self.cameras.array, state.array, self.camera_from_view, self.photo_params, self.camera_params

    def step(self, state: IterState) -> None:
        """One step of Adam on the state's view and its camera."""
        photo, camera = self.photo_decay, self.camera_decay
        sums = self.d_isp, self.camera_from_view, len(self.d_isp), len(self.photo_params)
        weights = float(self.photo_weight), float(self.camera_weight)
        rates = photo.first, photo.last, camera.first, camera.last, photo.steps
        params = self.photo_params, self.camera_params, self.camera_steps
        kernel = self.backend.kernel("optim/step_isp", "step_isp")
        kernel((1,), (SUM_THREADS[self.backend.name],), state.array, *sums, *weights, *rates, *params)

    def arrays(self) -> dict[str, DeviceArray]:
        return {
            "photo_params": self.photo_params,
            "camera_params": self.camera_params,
            "camera_steps": self.camera_steps,
        }

    def constrain(self) -> None:
        """Subtract the mean over photographs, so splats rendered without these values look like the mean photograph."""
        values = self.photo_params[:, 0]
        values -= values.mean(axis=0)

    def camera_responses(self) -> dict[int, CameraResponse]:
        """See JointModel."""
        rows = self.backend.download(self.camera_params)[:, 0]
        return {int(number): CameraResponse.of(row) for number, row in zip(self.camera_ids, rows, strict=True)}

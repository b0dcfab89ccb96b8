"""Settings: camera poses and appearance."""

from dataclasses import dataclass
from typing import ClassVar

from splat_cli.config.setting import setting


@dataclass(frozen=True)
class CameraSettings:
    """Pose refinement and colour correction of photographs."""

    GROUP: ClassVar[str] = "Camera poses and appearance"

    pose_opt: bool = setting(
        False,
        "Refine the camera poses: first on small photographs, then jointly with the splats.",
        common=True,
        fixed=True,
        single_gpu=True,
    )
    pose_travel: float = setting(
        0.5,
        "Limit of a camera's rotation, in degrees, and of its translation, as the same angle in radians times the "
        "scene's extent; 4 and 2 times as much on the small photographs before training.",
        low=0,
        high=45,
        needs="--pose-opt",
    )
    refine_intrinsics: bool = setting(
        False,
        "Refine focal length and principal point of each camera as well; a step moves no image point farther than "
        "a rotation by --pose-travel.",
        fixed=True,
        needs="--pose-opt",
    )
    refine_distortion: bool = setting(
        False,
        "Refine the radial distortion (k1, k2) of each camera as well: the distortion that remains after the "
        "photographs are undistorted.",
        fixed=True,
        needs="--refine-intrinsics",
    )
    intrinsics_reg: float = setting(
        0.1,
        "Weight in the loss of the squared changes of intrinsics: of the focal length's logarithm, of the "
        "principal point in focal lengths, of k1 and of k2.",
        low=0,
        needs="--refine-intrinsics",
    )
    appearance: str | None = setting(
        None,
        "Colour correction trained per photograph and not applied to other renders: an affine map (exposure), a "
        "bilateral grid of them (grid), or also vignetting and response per camera (camera); by default none, or "
        "exposure by --trials.",
        choices=("none", "exposure", "grid", "camera"),
        common=True,
        fixed=True,
        single_gpu=True,
        not_in_city=("grid", "camera"),
    )
    lr_exposure: float = setting(
        5e-3,
        "Initial learning rate of exposures; with --appearance camera, in runs of at least 100 steps per photograph, "
        "and higher in shorter ones.",
        low=0,
        needs="--appearance",
    )
    lr_exposure_final: float = setting(
        5e-4, "Final learning rate of exposures; the decay is exponential.", low=0, needs="--appearance"
    )
    exposure_reg: float = setting(
        0.01,
        "Weight in the loss of the squared difference of exposures from the identity.",
        low=0,
        needs="--appearance",
    )
    lr_grid: float = setting(
        5e-3, "Learning rate of bilateral grids; decays to a tenth.", low=0, needs="--appearance grid"
    )
    grid_smoothness: float = setting(
        100.0,
        "Weight in the loss of the mean squared difference of a grid's neighbouring values.",
        low=0,
        needs="--appearance grid",
    )
    lr_camera: float = setting(
        5e-3,
        "Learning rate of vignetting and response of cameras; decays to a tenth.",
        low=0,
        needs="--appearance camera",
    )
    camera_reg: float = setting(
        0.01,
        "Weight in the loss of the squared parameters of vignetting and response.",
        low=0,
        needs="--appearance camera",
    )

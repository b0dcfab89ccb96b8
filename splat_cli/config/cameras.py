"""Settings: camera poses and appearance."""

from dataclasses import dataclass
from typing import ClassVar

from splat_cli.config.setting import setting


@dataclass(frozen=True)
class CameraSettings:
    """Pose refinement and colour correction of photographs."""

    GROUP: ClassVar[str] = "Camera poses and appearance"

    pose_opt: bool = setting(
        False, "Refine the camera poses: first on small photographs, then jointly with the splats."
    )
    pose_travel: float = setting(
        0.5,
        "With --pose-opt, limit of a camera's rotation, in degrees, and of its translation, as the same angle in "
        "radians times the scene's extent; on the small photographs before training, 4 and 2 times as much.",
        low=0,
        high=45,
    )
    refine_intrinsics: bool = setting(
        False,
        "With --pose-opt, refine focal length and principal point of each camera as well; a step moves no point of the "
        "image farther than --pose-travel lets the pose rotate.",
    )
    refine_distortion: bool = setting(
        False,
        "With --refine-intrinsics, refine the radial distortion (k1, k2) of each camera as well: what is left of it in "
        "the photographs, which are undistorted by the given one.",
    )
    intrinsics_reg: float = setting(
        0.1,
        "Weight in the loss of the squared changes of intrinsics: of the focal length's logarithm, of the "
        "principal point in focal lengths, of k1 and of k2.",
        low=0,
    )
    appearance: str = setting(
        "none",
        "Colour correction trained for each photograph and not applied to other renders: one affine map (exposure), a "
        "bilateral grid of affine maps (grid), or exposure and affine map with each camera's vignetting and response "
        "(camera).",
        choices=("none", "exposure", "grid", "camera"),
    )
    lr_exposure: float = setting(
        5e-3,
        "Initial learning rate of exposures; with --appearance camera, of runs of at least 100 steps per photograph, "
        "and higher in shorter ones.",
        low=0,
    )
    lr_exposure_final: float = setting(5e-4, "Final learning rate of exposures; the decay is exponential.", low=0)
    exposure_reg: float = setting(
        0.01, "Weight in the loss of the squared difference of exposures from the identity.", low=0
    )
    lr_grid: float = setting(5e-3, "Learning rate of bilateral grids; decays to a tenth.", low=0)
    grid_smoothness: float = setting(
        100.0, "Weight in the loss of the mean squared difference of a grid's neighbouring values.", low=0
    )
    lr_camera: float = setting(5e-3, "Learning rate of vignetting and response of cameras; decays to a tenth.", low=0)
    camera_reg: float = setting(0.01, "Weight in the loss of the squared parameters of vignetting and response.", low=0)

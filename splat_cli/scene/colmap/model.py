"""Contents of a COLMAP model's files."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.quaternion import matrix_from_quat

CAMERA_MODELS: dict[int, tuple[str, int]] = {
    0: ("SIMPLE_PINHOLE", 3),
    1: ("PINHOLE", 4),
    2: ("SIMPLE_RADIAL", 4),
    3: ("RADIAL", 5),
    4: ("OPENCV", 8),
    5: ("OPENCV_FISHEYE", 8),
    6: ("FULL_OPENCV", 12),
    7: ("FOV", 5),
    8: ("SIMPLE_RADIAL_FISHEYE", 4),
    9: ("RADIAL_FISHEYE", 5),
    10: ("THIN_PRISM_FISHEYE", 12),
    11: ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
    12: ("SIMPLE_DIVISION", 4),
    13: ("DIVISION", 5),
    14: ("SIMPLE_FISHEYE", 3),
    15: ("FISHEYE", 4),
    16: ("EUCM", 6),
    17: ("EQUIRECTANGULAR", 2),
}
"""Model id -> (name, number of parameters), as in COLMAP's camera models."""

MODEL_IDS = {name: model_id for model_id, (name, _) in CAMERA_MODELS.items()}
SPHERE = "EQUIRECTANGULAR"
"""Camera model of 360-degree photographs."""

MAX_PARAMETERS = 24
"""Maximum number of parameters of a camera of any model; the models above have at most 16."""
MAX_CAMERA_SIDE = 1 << 18


@dataclass(frozen=True, slots=True)
class Camera:
    """Size in pixels, and the parameters in the order of COLMAP's `model`, which may be unknown."""

    id: int
    model: str
    width: int
    height: int
    params: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """Pose of one photograph: world to camera, as a quaternion (w x y z, any length) and a translation."""

    id: int
    camera_id: int
    name: str
    quat: tuple[float, float, float, float]
    translation: tuple[float, float, float]

    def w2c(self) -> np.ndarray:
        """float64 [4, 4]; not finite if numbers are not finite or the quaternion is zero."""
        matrix = np.eye(4)
        matrix[:3, :3] = matrix_from_quat(self.quat)
        matrix[:3, 3] = self.translation
        return matrix


@dataclass
class Model:
    """Cameras by id, images in the order of the file, points float64 [P, 3] and colours uint8 [P, 3].

    errors (float64 [P], pixels) and track_lengths (int64 [P], observations): None if unknown.
    """

    cameras: dict[int, Camera]
    images: list[Image]
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    colors: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.uint8))
    errors: np.ndarray | None = None
    track_lengths: np.ndarray | None = None


def check_camera(camera: Camera, path: Path) -> Camera:
    """The camera, if valid, else SceneError."""
    sides = (camera.width, camera.height)
    if not all(1 <= side <= MAX_CAMERA_SIDE for side in sides) or not all(map(math.isfinite, camera.params)):
        raise SceneError(
            f"{path}: camera {camera.id} has size {sides[0]}x{sides[1]} and parameters {list(camera.params)}, "
            "which are invalid; the file is damaged: copy or export the model again"
        )
    return camera

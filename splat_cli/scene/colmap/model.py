"""Contents of a COLMAP model's files, and the lenses of its cameras."""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.lens.camera import IMPOSSIBLE, Lens, spherical_lens
from splat_cli.scene.lens.distortion import Distortion, Division, Eucm, Fov, Polynomial
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
_ONE_FOCAL_LENGTH = (
    "SIMPLE_PINHOLE",
    "SIMPLE_RADIAL",
    "RADIAL",
    "SIMPLE_RADIAL_FISHEYE",
    "RADIAL_FISHEYE",
    "SIMPLE_DIVISION",
    "SIMPLE_FISHEYE",
)


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


def add_camera(cameras: dict[int, Camera], camera: Camera, path: Path) -> None:
    """Add a camera by its id. SceneError if it is invalid, or if the id has another camera already."""
    sides = (camera.width, camera.height)
    if not all(1 <= side <= MAX_CAMERA_SIDE for side in sides) or not all(map(math.isfinite, camera.params)):
        raise SceneError(
            f"{path}: camera {camera.id} has size {sides[0]}x{sides[1]} and parameters {list(camera.params)}, "
            "which are invalid; the file is damaged: copy or export the model again"
        )
    if cameras.setdefault(camera.id, camera) != camera:
        raise SceneError(f"{path}: two cameras have the id {camera.id}; the file is damaged: export the model again")


def lens_of(camera: Camera) -> Lens:
    """Lens of a camera. SceneError if its model is unsupported or its parameters are invalid."""
    if camera.model == SPHERE:
        return spherical_lens(camera.width, camera.height)
    if camera.model not in MODEL_IDS:
        raise SceneError(
            f"camera {camera.id} has the unknown camera model {ascii(camera.model[:40])[1:-1]}: undistort the images "
            "to PINHOLE cameras"
        )
    f, params = camera.params[0], camera.params[1:]
    fx, fy, cx, cy, *extra = (f, f, *params) if camera.model in _ONE_FOCAL_LENGTH else camera.params
    if not (fx > 0 and fy > 0):
        raise SceneError(
            f"camera {camera.id} has a focal length {IMPOSSIBLE} ({min(fx, fy):g}): estimate the poses again, with "
            "another camera model"
        )
    return Lens(camera.width, camera.height, fx, fy, cx, cy, _distortion(camera, tuple(extra)))


def _distortion(camera: Camera, k: tuple[float, ...]) -> Distortion | None:
    match camera.model:
        case "SIMPLE_PINHOLE" | "PINHOLE":
            return None
        case "SIMPLE_RADIAL" | "RADIAL":
            return Polynomial(radial=k).or_none()
        case "SIMPLE_FISHEYE" | "FISHEYE" | "SIMPLE_RADIAL_FISHEYE" | "RADIAL_FISHEYE" | "OPENCV_FISHEYE":
            return Polynomial(radial=k, fisheye=True)
        case "OPENCV" | "FULL_OPENCV":
            return Polynomial(radial=(*k[:2], *k[4:5]), rational=k[5:], tangential=(k[2], k[3])).or_none()
        case "THIN_PRISM_FISHEYE":
            prism = (k[6], 0.0, k[7], 0.0)
            return Polynomial(radial=k[:2] + k[4:6], tangential=(k[2], k[3]), prism=prism, fisheye=True)
        case "RAD_TAN_THIN_PRISM_FISHEYE":  # p0 and p1 are in reverse order
            prism = (k[8], k[9], k[10], k[11])
            return Polynomial(k[:6], tangential=(k[7], k[6]), prism=prism, fisheye=True, tangential_last=True)
        case "FOV" | "SIMPLE_DIVISION" | "DIVISION" | "EUCM" if math.isclose(k[0], 0, abs_tol=1e-9):
            return None  # without distortion: the photograph needs no filter
        case "FOV":
            return Fov(*k)
        case "SIMPLE_DIVISION" | "DIVISION":
            return Division(*k)
        case "EUCM" if 0 <= k[0] <= 1 and k[1] > 0:
            return Eucm(*k)
    raise SceneError(f"camera {camera.id} ({camera.model}) has the invalid parameters {k}: calibrate it again")

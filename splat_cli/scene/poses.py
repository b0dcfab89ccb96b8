"""Transformations of camera poses: one offset each, or a common similarity transform; poses after refinement."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.scene.quaternion import nearest_rotation, rotation_from_vector, vector_from_rotation, world_to_camera
from splat_cli.scene.view import View

_MIN_OFFSETS = 4


def moved_pose(w2c: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """w2c [4, 4] after an offset [6]: rotation (radians), translation (world units), as in cuda_src/optim/pose.cu."""
    rotation, result = rotation_from_vector(offset[:3]), np.eye(4)
    result[:3, :3] = rotation @ w2c[:3, :3]
    result[:3, 3] = rotation @ (w2c[:3, 3] + offset[3:])
    return result


def moved_views(views: Sequence[View], offsets: np.ndarray) -> list[View]:
    """The views, each moved by its row of `offsets` [V, 6]; in [V, 9] or [V, 11], offsets of intrinsics follow."""
    rows = offsets.astype(np.float64)
    return [moved_intrinsics(_moved(view, row[:6]), row[6:]) for view, row in zip(views, rows, strict=True)]


def _moved(view: View, offset: np.ndarray) -> View:
    return dataclasses.replace(view, w2c=moved_pose(view.w2c, offset))


def moved_intrinsics(view: View, offset: np.ndarray) -> View:
    """The view with other intrinsics, as cuda_src/optim/intrinsics.cu applies them; unchanged if `offset` is empty.

    offset: logarithm of the focal lengths' factor, shift of the principal point in focal lengths and, if refined, k1
    and k2.
    """
    if not len(offset):
        return view
    factor, focal = float(np.exp(offset[0])), (view.fx + view.fy) / 2
    cx, cy = view.cx + focal * float(offset[1]), view.cy + focal * float(offset[2])
    k1, k2 = np.add(view.radial, offset[3:]) if len(offset) > 3 else view.radial
    return dataclasses.replace(
        view, fx=factor * view.fx, fy=factor * view.fy, cx=cx, cy=cy, radial=(float(k1), float(k2))
    )


def intrinsics_offset(view: View, other: View) -> np.ndarray:
    """The offset [5] by which `moved_intrinsics` changes the intrinsics of `view` to those of `other`."""
    focal = (view.fx + view.fy) / 2
    shift = (other.cx - view.cx) / focal, (other.cy - view.cy) / focal
    return np.array([np.log(other.fx / view.fx), *shift, *np.subtract(other.radial, view.radial)])


def pose_offset(view: View, other: View) -> np.ndarray:
    """The offset [6] by which `moved_pose` takes the pose of `view` to that of `other`."""
    turn = other.w2c[:3, :3] @ view.w2c[:3, :3].T
    return np.concatenate([vector_from_rotation(turn), turn.T @ other.w2c[:3, 3] - view.w2c[:3, 3]])


@dataclass(frozen=True)
class Similarity:
    """World coordinates x become scale * rotation @ x + translation."""

    scale: float
    rotation: np.ndarray  # [3, 3]
    translation: np.ndarray  # [3]

    def apply(self, view: View) -> View:
        """The view after the transform."""
        center = self.scale * self.rotation @ view.center + self.translation
        w2c = world_to_camera(view.w2c[:3, :3] @ self.rotation.T, center)
        shutter = view.rolling_shutter and view.rolling_shutter.scaled(self.scale)
        return dataclasses.replace(view, w2c=w2c, rolling_shutter=shutter)

    @property
    def inverse(self) -> np.ndarray:
        """Matrix [4, 4] from coordinates after the transform to those before."""
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = self.scale * self.rotation, self.translation
        return np.linalg.inv(matrix)


def similarity_between(views: Sequence[View], others: Sequence[View]) -> Similarity:
    """Least-squares similarity transform from the cameras of `views` to those of `others`, in order.

    The rotation is fitted to the camera axes (so that collinear or few cameras suffice), scale and translation to the
    centres. The scale is 1 if all cameras coincide.
    """
    turns = sum(other.w2c[:3, :3].T @ view.w2c[:3, :3] for view, other in zip(views, others, strict=True))
    rotation = nearest_rotation(np.asarray(turns))
    source, target = (np.array([view.center for view in many]) for many in (views, others))
    turned = (source - source.mean(axis=0)) @ rotation.T
    spread = float((turned**2).sum())
    scale = float((turned * (target - target.mean(axis=0))).sum()) / spread if spread > 0 else 1.0
    return Similarity(scale, rotation, target.mean(axis=0) - scale * rotation @ source.mean(axis=0))


def views_following(views: Sequence[View], given: Sequence[View], refined: Sequence[View]) -> list[View]:
    """`views` after training cameras moved from `given` to `refined`. Other cameras move with them.

    Jointly refined cameras may drift together with the splats. The other cameras follow by the similarity transform
    from the given to the refined poses of the training cameras, then by their common offset in camera axes: all cameras
    of a ring can pitch, which a similarity cannot express. Intrinsics follow those of the camera id, or the offset that
    all cameras have in common.
    """
    drift = similarity_between(given, refined)
    pairs = list(zip(given, refined, strict=True))
    turn = common_offset([pose_offset(drift.apply(view), other) for view, other in pairs])
    changes = {view.camera_id: intrinsics_offset(view, other) for view, other in pairs}
    change = common_offset(list(changes.values()))
    trained = {view.name: view for view in refined}

    def followed(view: View) -> View:
        moved = drift.apply(view)
        moved = dataclasses.replace(moved, w2c=moved_pose(moved.w2c, turn))
        return moved_intrinsics(moved, changes.get(view.camera_id, change))

    return [trained.get(view.name) or followed(view) for view in views]


def common_offset(offsets: Sequence[np.ndarray]) -> np.ndarray:
    """Estimate of the offset that all views share: mean of `offsets` [N], shrunk if it may be chance; 0 for few.

    If corrections of cameras are independent, their mean is within its standard error of 0. The factor is from James
    and Stein (1961), "Estimation with quadratic loss", for each column alone.
    """
    mean = np.mean(offsets, axis=0)
    if len(offsets) < _MIN_OFFSETS:
        return np.zeros_like(mean)
    variance = np.var(offsets, axis=0, ddof=1) / len(offsets)
    return mean * np.clip(1 - variance / np.maximum(mean**2, 1e-30), 0, 1)

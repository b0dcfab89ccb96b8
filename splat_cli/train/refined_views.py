"""Camera poses of all views after pose refinement."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.scene.poses import intrinsics_offset, moved_intrinsics, moved_pose, pose_offset, similarity_between
from splat_cli.scene.view import View
from splat_cli.train.trainer import Trainer

_MIN_OFFSETS = 4


def refined_views(trainer: Trainer, views: Sequence[View]) -> list[View]:
    """`views` at refined poses and intrinsics; without --pose-opt, `views` unchanged."""
    refined = trainer.joint.refined_views()
    return list(views) if refined is None else views_following(views, trainer.cameras.views, refined)


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

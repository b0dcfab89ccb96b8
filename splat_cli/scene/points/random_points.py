"""Selection of initial points, and random points."""

from collections.abc import Sequence

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.dataset import Points
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.options import SceneOptions
from splat_cli.scene.view import Scene, View

_SHARE_OF_DISTANCE = 0.5  # half side of the random cube / distance of the cameras from what they look at
_BACKGROUND = 8.0  # maximum distance of points, in sides of the cube
_BLOCK = 1 << 16
_CHECKED, _MIN_IN_VIEW = 10_000, 0.05
_AROUND_EXTENT = 3.0  # the same, times the scene's extent, where cameras look outwards


def kept_points(points: Points, options: SceneOptions) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """Positions float32 [P, 3], colours uint8 [P, 3], numbers dropped by reason. SceneError if options leave none."""
    with np.errstate(over="ignore", invalid="ignore"):  # overflow to infinity: dropped
        positions = points.positions.astype(np.float32, copy=False)
    keep = np.isfinite(positions).all(axis=1)
    dropped = {"noise": points.num_noise, "not finite": int((~keep).sum())}

    def drop(reason: str, bad: np.ndarray) -> None:
        nonlocal keep
        dropped[reason] = int((keep & bad).sum())
        keep = keep & ~bad

    drop("duplicates", ~_is_first(positions))
    tracks = points.track_lengths
    if options.min_track_length and tracks is not None and tracks.any():  # a model written without tracks has zeros
        drop(f"in fewer than {options.min_track_length} photographs", tracks < options.min_track_length)
    if options.max_point_error is not None and points.errors is not None:
        drop(f"off by more than {options.max_point_error:g} pixels", ~(points.errors <= options.max_point_error))
    if options.crop is not None:
        drop("outside the crop", ~options.crop.contains(positions))
    dropped = {reason: count for reason, count in dropped.items() if count}
    if len(positions) and not keep.any():
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        is_damaged = dropped.keys() <= {"not finite", "duplicates"}
        advice = "write the model again, or use --init random" if is_damaged else "choose less strictly"
        raise SceneError(f"none of the {len(positions):,} points is left ({reasons}): {advice}")
    return positions[keep], points.colors[keep], dropped


def points_out_of_view(scene: Scene, least: float = _MIN_IN_VIEW) -> str | None:
    """Description of the problem if less than the fraction `least` of the points is in view, else None."""
    some = scene.points[:: max(1, len(scene.points) // _CHECKED)].astype(np.float64)
    if not len(some):
        return None
    seen = np.zeros(len(some), bool)
    for view in scene.views:
        seen |= view.project(some)[2]
        if seen.mean() >= least:
            return None
    spread, cameras = np.ptp(np.percentile(some, (5, 95), axis=0), axis=0).max(), scene_extent(scene.views)
    return (
        f"{seen.mean():.1%} of the {len(scene.points):,} points are in view of a camera; they spread over {spread:.3g} "
        f"units, the cameras over {2 * cameras:.3g}: points must have the coordinates of the camera poses, and these "
        "the axes of their format (docs/datasets.md)"
    )


def random_points(views: Sequence[View], count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """`count` grey points, float32 [P, 3] and uint8 [P, 3], around the region that the cameras view.

    Half of them are uniform in a cube around the point nearest to all optical axes (around the cameras, if these look
    outwards), the others outside it, up to 8 times as far, with decreasing density.
    """
    centers = np.array([view.center for view in views])
    forward = np.array([view.w2c[2, :3] for view in views])
    middle, side = centers.mean(axis=0), _AROUND_EXTENT * scene_extent(views)
    across = np.eye(3) - forward[:, :, None] * forward[:, None, :]  # onto the plane across each axis
    normal = across.sum(axis=0)
    if np.linalg.cond(normal) < 1e3:
        focus = np.linalg.solve(normal, (across @ centers[:, :, None]).sum(axis=0))[:, 0]
        depths = ((focus - centers) * forward).sum(axis=1)
        if np.median(depths) > 0:
            middle, side = focus, _SHARE_OF_DISTANCE * float(np.median(depths))
    offsets = rng.uniform(-1, 1, (count, 3))
    far = offsets[::2]  # a view: moved outwards along their directions
    far *= _BACKGROUND ** rng.random((len(far), 1)) / np.linalg.norm(far, axis=1, keepdims=True)
    positions = middle + side * offsets
    return positions.astype(np.float32), np.full((count, 3), 128, np.uint8)


def _is_first(positions: np.ndarray) -> np.ndarray:
    """bool [P]: no point before this one has the same coordinates."""
    rows = np.ascontiguousarray(positions + np.float32(0)).view(np.dtype((np.void, 12)))  # + 0 makes -0 the same as 0
    order = np.argsort(rows[:, 0], kind="stable")
    first = np.ones(len(positions), bool)
    for begin in range(1, len(order), _BLOCK):  # np.unique takes three times the memory
        part = rows[order[begin - 1 : begin + _BLOCK]]
        first[order[begin : begin + _BLOCK]] = (part[1:] != part[:-1])[:, 0]
    return first

"""Pose alignment before training, with temporary splats on small photographs.

Cameras find their places over wider gaps in blurred pictures than in sharp ones, so that sizes go from coarse to fine
(Lin et al. 2021, "BARF", sec. 3.2). Splats that grew while cameras were off keep what they took for detail, and hold
the cameras by it: each size starts from the points again, and so does the run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.console import Display
from splat_cli.device import Backend
from splat_cli.optim.poses import PoseRefinement
from splat_cli.run.build_trainer import build_trainer
from splat_cli.run.plan import resolve_plan
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.plane_sweep.grayscale import small_copies, whole_mask
from splat_cli.scene.poses import moved_views
from splat_cli.scene.view import Scene

SIZES = (128, 256)  # px of the longer side, from coarse to fine; as far as photographs are larger
TRAVEL = (4.0, 2.0)  # how far cameras may move at each size, times --pose-travel
VISITS = 30  # of each camera at each size, whatever the length of the run


Points = tuple[np.ndarray, np.ndarray]


def align_poses(
    backend: Backend,
    photographs: ImageSet,
    scene: Scene,
    config: TrainConfig,
    display: Display,
    find_points: Callable[[ImageSet, ResolvedConfig], Points],
) -> np.ndarray:
    """Initial offsets of the photographs' cameras, float32 [V, 6] as `moved_pose` takes them.

    find_points: points to start from and their colours, as the cameras are: the scene's, or by a plane sweep.
    """
    offsets = np.zeros((len(photographs.views), 6), np.float32)
    for small, travel in zip(pyramid(photographs), TRAVEL, strict=False):
        steps = VISITS * len(small.views)
        coarse = TrainConfig(
            steps=steps, seed=config.seed, deterministic=config.deterministic, background=config.background,
            appearance="none" if config.appearance == "none" else "exposure",
            pose_opt=True, pose_travel=min(travel * config.pose_travel, 45),
            init="points" if len(scene.points) else "sweep",
            local_frame_adam=False,  # splats that move quickly give way where cameras should
        )  # fmt: skip
        display.say(f"Aligning cameras at {small.views[0].width}x{small.views[0].height}")
        moved = small._replace(views=moved_views(small.views, offsets))
        plan = resolve_plan(coarse, small.views)
        points = find_points(moved, plan.config)
        trainer = build_trainer(backend, plan, small, points, pose_offsets=offsets)
        with display.training(steps) as show:
            trainer.run_until(steps, show)
        offsets = next(model for model in trainer.auxiliary.models if isinstance(model, PoseRefinement)).current()
    return offsets


def pyramid(photographs: ImageSet) -> list[ImageSet]:
    """The photographs at each of SIZES that is smaller than they are, or as they are where none is.

    All lie in memory, also where the larger ones are decoded when needed.
    """
    longest = max(max(view.width, view.height) for view in photographs.views)
    sizes = [size for size in SIZES if size < longest] or [longest]
    levels = [photographs]
    for size in reversed(sizes):
        larger = levels[-1]
        levels.append(small_copies(larger, range(len(larger.views)), size, whole_mask))
    return levels[:0:-1]

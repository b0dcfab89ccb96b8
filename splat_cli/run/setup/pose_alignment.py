"""Pose alignment before training, with temporary splats on small photographs.

Coarse-to-fine: blurred pictures have wider basins of convergence (Lin et al. 2021, "BARF", sec. 3.2). Splats
fitted to wrong poses have wrong detail that holds the cameras in place. So each size, and the run itself, starts from
the points again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.plane_sweep.grayscale import small_copies, whole_mask
from splat_cli.scene.poses import moved_views
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import Display
from splat_cli.train.trainer import TrainingInputs

SIZES = (128, 256)  # px of the longer side, coarse to fine; sizes above that of the photographs are skipped
TRAVEL = (4.0, 2.0)  # limit of camera motion at each size, relative to --pose-travel
VISITS = 30  # steps per camera at each size


Points = tuple[np.ndarray, np.ndarray]


def align_poses(
    backend: Backend,
    photographs: ImageSet,
    scene: Scene,
    config: TrainConfig,
    display: Display,
    find_points: Callable[[ImageSet, ResolvedConfig], Points],
) -> np.ndarray:
    """Initial offsets of the photographs' cameras, float32 [V, 6], or [V, 9 or 11] with intrinsics, for `moved_views`.

    find_points: function from views to initial points and colours: the scene's, or from a plane sweep.
    """
    columns = 6 + config.refine_intrinsics * (5 if config.refine_distortion else 3)
    offsets = np.zeros((len(photographs.views), columns), np.float32)
    for small, travel in zip(pyramid(photographs), TRAVEL, strict=False):
        steps = VISITS * len(small.views)
        coarse = TrainConfig(
            steps=steps,
            seed=config.seed,
            deterministic=config.deterministic,
            background=config.background,
            appearance="none" if config.appearance == "none" else "exposure",
            pose_opt=True,
            refine_intrinsics=config.refine_intrinsics,
            refine_distortion=config.refine_distortion,
            intrinsics_reg=config.intrinsics_reg,
            pose_travel=min(travel * config.pose_travel, 45),
            init="points" if len(scene.points) else "sweep",
            local_frame_adam=False,  # fast splats would compensate for wrong poses
        )
        display.say(f"Aligning cameras at {small.views[0].width}x{small.views[0].height}")
        moved = small._replace(views=moved_views(small.views, offsets))
        plan = resolve_plan(coarse, small.views, scene.points)
        points = find_points(moved, plan.config)
        trainer = build_trainer(backend, plan, TrainingInputs(small, pose_offsets=offsets), points)
        with display.training(steps) as show:
            trainer.run_until(steps, show)
        assert trainer.joint.poses
        offsets = trainer.joint.poses.current()
    return offsets


def pyramid(photographs: ImageSet) -> list[ImageSet]:
    """The photographs downscaled to each smaller size in SIZES; unchanged if all are larger.

    All are kept in memory, even if the originals are streamed.
    """
    longest = max(max(view.width, view.height) for view in photographs.views)
    sizes = [size for size in SIZES if size < longest] or [longest]
    levels = [photographs]
    for size in reversed(sizes):
        larger = levels[-1]
        levels.append(small_copies(larger, range(len(larger.views)), size, whole_mask))
    return levels[:0:-1]

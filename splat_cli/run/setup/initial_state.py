"""Initial state of a run: camera offsets, if poses are refined, and initial points."""

from __future__ import annotations

import dataclasses

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend, ceil_div
from splat_cli.errors import SceneError
from splat_cli.gaussians.arrays import SplatArrays, zero_splats
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup.build_trainer import InitialState, build_trainer, build_trainer_within_memory
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.georeferenced import relative_crop
from splat_cli.scene.images.downscale import small_copies, whole_mask
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.plane_sweep import MAX_VIEWS, MIN_POINTS, SIDE, pinhole_pictures, plane_sweep_points, sweep_copies
from splat_cli.scene.points.initial_points import ANY_IN_VIEW, out_of_view, random_points, sky_points
from splat_cli.scene.poses import moved_views
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import Display
from splat_cli.terminal.phase_timer import PhaseTimer
from splat_cli.train.initial_splats import frozen_splats
from splat_cli.train.trainer import Trainer, TrainingInputs

SIZES = (128, 256)  # px of the longer side, coarse to fine; sizes above that of the photographs are skipped
TRAVEL = (4.0, 2.0)  # limit of camera motion at each size, relative to --pose-travel
VISITS = 30  # steps per camera at each size
SURFACE_POINTS = 4_000  # of the plane sweep, as many as small models have


def find_initial_state(
    scene: Scene, training: ImageSet, config: ResolvedConfig, backend: Backend, display: Display
) -> InitialState:
    """Initial poses, if they are refined, then points from the cameras at these poses.

    SceneError with --free-space if no points are known to lie on surfaces.
    """
    frozen, offsets = frozen_splats(config, scene.origin, display.warn), None
    if frozen and (apart := out_of_view(scene.views, frozen.means, "splats", ANY_IN_VIEW)):
        display.warn(f"{config.frozen}: {apart}")
    if config.pose_opt:
        offsets = align_poses(scene, training, config, backend, display)
        training = training._replace(views=moved_views(training.views, offsets))
    points, colors, num_found = _points_to_start(scene, training, config, backend, display)
    found = scene.points if len(scene.points) else points[: num_found : ceil_div(num_found, SURFACE_POINTS) or 1]
    if config.free_space and not len(found):
        raise SceneError(f"{scene.root} has no points to find free space with: leave out --free-space")
    return InitialState((points, colors), offsets, frozen, found if len(found) else None)


def build_trainer_from_data(data: TrainingData, config: TrainConfig, backend: Backend, display: Display) -> Trainer:
    """A trainer in the initial state of a run, as `train_scene` builds it."""
    plan = data.plan(config)
    start = find_initial_state(data.scene, data.training, plan.config, backend, display)
    return build_trainer_within_memory(backend, plan, data, start, display, PhaseTimer("training"))


def placeholder_state(training: ImageSet, num_splats: int, num_frozen: int, sh_degree: int) -> InitialState:
    """Splats of zeros at random points, and frozen ones, to be replaced by the state of a checkpoint.

    num_splats: total number of both.
    """
    return InitialState(
        placeholder_splats(training, max(num_splats - num_frozen, 1)),
        frozen=zero_splats(num_frozen, sh_degree) if num_frozen else None,
    )


def placeholder_splats(training: ImageSet, num: int) -> SplatArrays:
    """Splats of zeros at random points."""
    points, _ = random_points(training.views, num, np.random.default_rng(0))
    return dataclasses.replace(zero_splats(num, 0), means=points)


def starting_points(
    scene: Scene, training: ImageSet, config: ResolvedConfig, backend: Backend, display: Display
) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [P, 3] and colours uint8 [P, 3] according to --init: the scene's, found in photographs, or random.

    Empty if --init-from names a file of splats. Reports the numbers found.
    """
    return _points_to_start(scene, training, config, backend, display)[:2]


def _points_to_start(
    scene: Scene, training: ImageSet, config: ResolvedConfig, backend: Backend, display: Display
) -> tuple[np.ndarray, np.ndarray, int]:
    """`starting_points`, and the number of those that lie on surfaces. They are the first."""
    if config.init_from is not None:
        return scene.points[:0], scene.colors[:0], 0
    if config.init == "points":
        return scene.points, scene.colors, len(scene.points)
    points, colors, num_found = _points_elsewhere(scene, training, config, backend, display)
    crop = SceneOptions.of(config).crop
    if crop is None:
        return points, colors, num_found
    inside = relative_crop(crop, scene.origin).contains(points)
    if not inside.any():
        raise SceneError(f"none of the {len(points):,} points is left (outside the crop): choose a larger one")
    return points[inside], colors[inside], int(inside[:num_found].sum())


def _points_elsewhere(
    scene: Scene, training: ImageSet, config: ResolvedConfig, backend: Backend, display: Display
) -> tuple[np.ndarray, np.ndarray, int]:
    """Points found in the photographs (with --init auto, the scene's points, too), or random points.

    Also returns the number of points on surfaces, which are the first.
    """
    rng, count = np.random.default_rng(config.seed), min(config.init_points, config.max_splats)
    if config.init == "random":
        return *random_points(scene.views, count, rng), 0
    is_auto = config.init == "auto"
    points, colors = (scene.points, scene.colors) if is_auto else (scene.points[:0], scene.colors[:0])
    found = [f"{len(points):,} of the dataset"] if len(points) else []
    small, swept = _sweep(training, config, backend, display, rng)
    if not found and len(swept[0]) < MIN_POINTS:
        display.warn(f"the plane sweep found too few points: training starts from {count:,} random points")
        return *random_points(scene.views, count, rng), 0
    found.append(f"{len(swept[0]):,} of the plane sweep")
    points, colors = np.concatenate([points, swept[0]]), np.concatenate([colors, swept[1]])
    num_found = len(points)
    if small and is_auto and config.sky and config.background == "random":
        sky, sky_colors = sky_points(small, points)
        found += [f"{len(sky):,} of the sky"] if len(sky) else []
        points, colors = np.concatenate([points, sky]), np.concatenate([colors, sky_colors])
    display.say(f"Initial points: {', '.join(found)}")
    return points, colors, num_found


def _sweep(
    training: ImageSet, config: ResolvedConfig, backend: Backend, display: Display, rng: np.random.Generator
) -> tuple[ImageSet | None, tuple[np.ndarray, np.ndarray]]:
    """(downscaled photographs, points and colours of a plane sweep over them).

    If memory runs out, displays a warning and returns no points; the photographs may then be None.
    """
    small = None
    try:
        small = sweep_copies(pinhole_pictures(training, MAX_VIEWS, SIDE))
        count = min(config.init_points, _TRIES * config.max_splats)
        return small, plane_sweep_points(backend, small, count, rng, display.counting)
    except MemoryError:
        backend.release_cached()
        display.warn("no initial points of the plane sweep: out of memory")
        return small, (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8))


def align_poses(
    scene: Scene, photographs: ImageSet, config: TrainConfig, backend: Backend, display: Display
) -> np.ndarray:
    """Initial offsets of the photographs' cameras, float32 [V, 6], or [V, 9 or 11] with intrinsics, for `moved_views`.

    They come from trainings of temporary splats on small photographs, coarse to fine: blurred pictures have wider
    basins of convergence (Lin et al. 2021, "BARF", sec. 3.2). Splats fitted to wrong poses have wrong detail that holds
    the cameras in place. So each size, and the run itself, starts from the points again.
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
            appearance="exposure" if config.has_appearance else "none",
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
        points = starting_points(scene, moved, plan.config, backend, display)
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


_TRIES = 2  # pixels searched per splat, because fewer than half yield a depth

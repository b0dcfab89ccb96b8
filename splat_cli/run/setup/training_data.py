"""Training data of a run: the scene, the split into training and held-out views, and their images."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.config.combinations import unused_options, uses_free_space
from splat_cli.config.presets import changed_settings
from splat_cli.data.image_budget import ImageBudget, depth_map_limit, image_budget
from splat_cli.device import Backend
from splat_cli.errors import SceneError, UsageError
from splat_cli.io.files import Stamps, entries, stamps_of
from splat_cli.run.plan import RunPlan, resolve_plan
from splat_cli.run.storage.inputs import refuse_seen
from splat_cli.scene.colmap.dataset import find_colmap
from splat_cli.scene.dataset import NO_MASKS, SceneOptions, placed_paths
from splat_cli.scene.depth_maps import load_depth_maps
from splat_cli.scene.extent import units_warning
from splat_cli.scene.images.decode import TURNED, ignored_by
from splat_cli.scene.images.image_set import ImageSet, lazy_images, load_images
from splat_cli.scene.images.locate import DEPTH_FOLDERS
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.scene.plausibility import refuse_scene
from splat_cli.scene.points.initial_points import ANY_IN_VIEW, out_of_view
from splat_cli.scene.points.point_cloud import is_point_cloud
from splat_cli.scene.read import read_scene
from splat_cli.scene.split import Split, split_scene, unknown_names
from splat_cli.scene.view import Scene, View
from splat_cli.terminal.console import Display, first_of, left_out

_BACKGROUNDS = {"auto": (0, 0, 0), "black": (0, 0, 0), "white": (255, 255, 255)}


@dataclass(frozen=True)
class TrainingData:
    """Scene, training photographs and held-out photographs, if any.

    split: views of both, before decoding. budget: numbers of resident and prefetched images, if not all are resident.
    stamps: of the files of all views, before decoding.
    """

    scene: Scene
    training: ImageSet
    held_out: ImageSet | None
    split: Split
    budget: ImageBudget | None = None
    stamps: Stamps = field(default_factory=dict)

    def plan(self, config: TrainConfig) -> RunPlan:
        """The plan of a run with these settings."""
        resident = self.budget.resident_if_streamed if self.budget else None
        return resolve_plan(config, self.training.views, self.scene.points, resident=resident)


def read_data(
    scene_path: Path, config: TrainConfig, backend: Backend, display: Display, is_new: bool = True
) -> TrainingData:
    """`load_data` of the scene in a folder. is_new: the run begins now; only then are scenes refused."""
    return load_data(read_checked(scene_path, config, display, is_new), config, backend, display, is_new)


def read_checked(scene_path: Path, config: TrainConfig, display: Display, is_new: bool = True) -> Scene:
    """The scene in a folder. SceneError for wrong poses, if the run is new."""
    scene = read_scene(scene_path, SceneOptions.of(config))
    if is_new and not config.allow_implausible:
        refuse_scene(scene)
    _check_masks(scene, config, display)
    return scene


def load_data(
    scene: Scene, config: TrainConfig, backend: Backend, display: Display, is_new: bool = True
) -> TrainingData:
    """Split the scene's views and decode their photographs; reports numbers found and skipped.

    SceneError if nothing is left; UsageError if splats to start from were trained on held-out ones.
    """
    check_lenses(scene, config)
    _check_depths(scene, config, display)
    split = split_scene(scene, config, is_new)
    if is_new and (warning := refuse_seen(split.test, config)):
        display.warn(warning)
    if is_new:
        _warn_of_ignored(scene, display)
    unused = changed_settings(config).keys() & {"test_every", "split_by"}
    if config.eval and config.split is None and scene.test_names is not None and unused:
        display.warn(f"{SETTINGS[min(unused)].option} does nothing: the dataset names the photographs to hold out")
    if unknown := unknown_names(scene, config):
        by = config.split or "the dataset"
        display.warn(f"{by} holds out {len(unknown):,} names that no photograph has: {first_of(unknown)}")
    stamps = stamps_of(path for view in scene.views for path in view.files)
    budget = image_budget(backend, config, split.train, split.test)
    lazily = budget is not None and not budget.on_host
    training = load_image_set(split.train, config, backend, display, lazily)
    held_out = load_image_set(split.test, config, backend, display, lazily) if split.test else None
    _report(scene, [training, held_out] if held_out else [training], config.points, display)
    training = with_depth_maps(training, scene, config, backend, display)
    return TrainingData(scene, training, held_out, split, budget, stamps)


def _warn_of_ignored(scene: Scene, display: Display) -> None:
    """Warn of turns and colour profiles of photographs, which are not applied; COLMAP ignores turns, too."""
    names, of_colmap = defaultdict(list), find_colmap(scene.root) is not None
    for view in scene.views:
        with suppress(ValueError):  # gone or damaged: decoding it says so
            for remark in ignored_by(view.path) if view.path else ():
                if remark is not TURNED or view.mask or view.depth or not of_colmap:
                    names[remark].append(view.name)
    for remark, found in names.items():
        display.warn(f"{len(found):,} of {len(scene.views):,} photographs {remark} ({first_of(found)})")


def load_image_set(
    views: Sequence[View], config: TrainConfig, backend: Backend, display: Display, lazily: bool = False
) -> ImageSet:
    """Photographs and masks; transparent ones are composed over the run's background. Raises SceneError.

    lazily: decode each photograph when needed; damaged ones are found only then.
    """
    background = _BACKGROUNDS.get(config.background)
    if lazily:
        return lazy_images(
            views,
            lambda broken: display.warn(f"does not count: {broken}"),
            backend=backend,
            background=background,
            invert_masks=config.invert_masks,
        )
    with display.counting("photographs", len(views)) as on_photograph:
        return load_images(
            views, on_photograph, backend=backend, background=background, invert_masks=config.invert_masks
        )


def load_part(
    views: Sequence[View], own: Sequence[int], config: TrainConfig, backend: Backend, display: Display, lazily: bool
) -> ImageSet:
    """The photographs `own` of training views that another process has found usable; empty images for the others.

    lazily: see `load_image_set`; returns the images of all views. SceneError if one cannot be decoded here.
    """
    if lazily:
        return load_image_set(views, config, backend, display, lazily)
    part = load_image_set([views[index] for index in own], config, backend, display)
    if part.skipped:
        raise SceneError(f"a photograph can no longer be read: {part.skipped[0]}")
    images, masks = [np.zeros((0, 0, 3), np.uint8) for _ in views], list[np.ndarray | None]([None] * len(views))
    for index, image, mask in zip(own, part.images, part.masks, strict=True):
        images[index], masks[index] = image, mask
    return ImageSet(list(views), images, masks, [])


def with_depth_maps(
    photographs: ImageSet, scene: Scene, config: TrainConfig, backend: Backend, display: Display
) -> ImageSet:
    """The photographs with their depth maps.

    If no depth map can be used, or --depth-weight is 0, `depth` of their views is None.
    """
    if not any(view.depth for view in photographs.views):
        return photographs
    depth_maps = None
    if config.depth_weight != 0:
        most = depth_map_limit(backend, config)
        depth_maps = load_depth_maps(photographs.views, scene.points, config, most, display.say, display.warn)
    if depth_maps is not None:
        return photographs._replace(depth_maps=depth_maps)
    return photographs._replace(views=[dataclasses.replace(view, depth=None) for view in photographs.views])


def check_lenses(scene: Scene, config: TrainConfig) -> None:
    """UsageError for settings that do not work with the lenses of the views."""
    if all(view.distortion is None for view in scene.views):
        return
    if any(view.depth for view in scene.views) and config.depth_weight != 0:
        raise UsageError("--lens keep does not work with depth maps: give --depths none")
    if config.refine_distortion:
        raise UsageError("--lens keep does not work with --refine-distortion: leave it out")
    if any(view.rolling_shutter for view in scene.views) and config.pose_opt and config.refine_intrinsics:
        raise UsageError("--refine-intrinsics does not work with rolling shutters: leave it out")
    if any(isinstance(view.distortion, Equirectangular) for view in scene.views):
        given = {
            "--refine-intrinsics": config.pose_opt and config.refine_intrinsics,
            "--depth-weight": bool(config.depth_weight),
            "--free-space or --appearance grid": uses_free_space(config),
            "--gpus": config.gpus > 1,
        }
        if wrong := [option for option, is_on in given.items() if is_on]:
            raise UsageError(f"{wrong[0]} does not work with spherical photographs: leave it out")


def _check_masks(scene: Scene, config: TrainConfig, display: Display) -> None:
    """Warn if no photograph has a mask in the scene's own folder of masks."""
    folder = scene.root / "masks"
    if config.invert_masks and not any(view.mask for view in scene.views):
        display.warn("--invert-masks does nothing: no photograph has a mask")
    if config.masks is None and not any(view.mask for view in scene.views) and entries(folder):
        example = f"name them like these, such as {scene.views[0].name}.png, or give --masks none"
        display.warn(f"{folder} has no mask for any of the photographs, so none is used: {example}")


def _check_depths(scene: Scene, config: TrainConfig, display: Display) -> None:
    """SceneError for depth supervision without depths, UsageError for depth maps with several GPUs.

    Warns of depth maps that the dataset names and that are missing, and of settings for depth maps without any.
    """
    has_maps, missing = any(view.depth for view in scene.views), scene.missing_depths
    if not has_maps and (unread := changed_settings(config).keys() & {"depth_maps", "depth_unit"}):
        display.warn(f"{SETTINGS[min(unread)].option} does nothing: no photograph has a depth map")
    if config.depth_weight != 0 and not has_maps:
        if config.depths not in (None, NO_MASKS):
            raise SceneError(
                f"{config.depths} has no depth map for any of the {len(scene.views):,} photographs: name them "
                f"like these, such as {Path(scene.views[0].name).with_suffix('.png')}, or leave out --depths"
            )
        if missing and (config.depth_weight or config.depth_maps != "auto"):
            raise SceneError(
                f"none of the {len(missing):,} depth maps of {scene.found} exists: {missing[0]}; restore them, or "
                "give --depths none"
            )
        if folder := next(
            (name for name in DEPTH_FOLDERS if config.depths is None and entries(scene.root / name)), None
        ):
            display.warn(f"{scene.root / folder} has no depth map for any of the photographs, so none is used")
    if missing and config.depth_weight != 0:
        display.warn(left_out(missing, "depth map"))
    if config.depth_weight and not has_maps and not len(scene.points):
        raise SceneError(f"{scene.root} has no depth maps or points to compare depths with: leave out --depth-weight")
    if config.gpus > 1 and has_maps and config.depth_weight != 0:
        raise UsageError(f"--gpus {config.gpus} does not work with depth maps: give --depths none")


def with_fixed_paths(config: TrainConfig, scene: Path) -> TrainConfig:
    """The settings with relative paths made absolute, for later commands in other folders."""
    fixed: dict[str, Any] = placed_paths(vars(config), Path(), scene)
    return with_initial_points(dataclasses.replace(config, **fixed))


def with_initial_points(config: TrainConfig) -> TrainConfig:
    """Settings with --init-from POINTS (PLY, LAS) replaced by --points POINTS --init points; others unchanged."""
    if config.init_from is None or not is_point_cloud(Path(config.init_from)):
        return config
    return dataclasses.replace(config, points=config.init_from, init_from=None, init="points")


def warn_of_unused(config: TrainConfig, given: Iterable[str], display: Display, scene: str = "") -> None:
    """Warn of the settings in `given` that have no effect with the others in `config`. scene: put before each line."""
    lines = unused_options(with_initial_points(config), given)
    sources = [file for file in (config.init_from, config.frozen) if file]
    if "spz_axes" in given and sources and not any(file.lower().endswith(".spz") for file in sources):
        lines.append(f"--spz-axes does nothing for {' and '.join(sources)}")
    for line in lines:
        display.warn(f"{scene}: {line}" if scene else line)


def _report(scene: Scene, photographs: Sequence[ImageSet], points: str | None, display: Display) -> None:
    num_masks = sum(view.mask is not None for view in scene.views)
    masks = f", {num_masks:,} with masks" if num_masks else ""
    display.say(f"Scene: {scene.found}, {len(scene.views):,} photographs{masks}")
    # photographs of a dataset may be missing: few of its points may then be in view, but at least some are
    apart = out_of_view(scene.views, scene.points, "points", *([] if points else [ANY_IN_VIEW]))
    if apart is not None:
        display.warn(f"{points or 'the dataset'}: {apart}")
    if scene.dropped_points:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in scene.dropped_points.items())
        display.say(f"Left out points: {reasons}")
    if (warning := units_warning(scene.views, scene.points)) is not None:
        display.warn(warning)
    skipped = [*scene.skipped, *(line for part in photographs for line in part.skipped)]
    if skipped:
        display.warn(left_out(skipped, "photograph"))
    bad = {name: count for part in photographs for name, count in part.bad_pixels.items()}
    if bad:
        where = first_of([f"{count:,} in {name}" for name, count in bad.items()])
        display.warn(f"{sum(bad.values()):,} pixels are not finite and do not count: {where}")

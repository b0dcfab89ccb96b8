"""Reading of a scene: views and points."""

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.dataset import NO_MASKS, Dataset, SceneOptions, Unusable, not_read, shown_name
from splat_cli.scene.formats import read_dataset, scene_folder
from splat_cli.scene.georeferenced import centered, relative_crop, relative_to
from splat_cli.scene.images.locate import ImageIndex, ImageLocator
from splat_cli.scene.lens import IMPOSSIBLE
from splat_cli.scene.points.initial_points import filters_without_effect, kept_points
from splat_cli.scene.points.point_cloud import read_point_cloud
from splat_cli.scene.view import Scene, View


@np.errstate(all="ignore")  # invalid numbers are detected by their non-finite results
def read_scene(path: str | Path, options: SceneOptions | None = None) -> Scene:
    """Read a dataset and locate its photographs, without decoding them. path: its folder, or its main file.

    Photographs that cannot be used are listed in `Scene.skipped`. SceneError if the scene cannot be read or no
    photograph can be used, or none has a mask in the given folder.
    """
    options = options or SceneOptions()
    root, dataset_format = scene_folder(Path(path), options.format)
    options = dataclasses.replace(options, format=dataset_format)
    if not root.is_dir():
        raise SceneError(f"{root} {_why_no_folder(root)}")
    if options.downscale < 1 or (options.max_size is not None and options.max_size < 1):
        raise SceneError(f"downscale is {options.downscale} and max size {options.max_size}; both must be at least 1")
    dataset = centered(read_dataset(root, options), options.origin)
    finder = ImageLocator(root, dataset, options)
    views, skipped = _views(finder, dataset)
    skipped = sorted(dataset.skipped + skipped)
    if not views:
        if not skipped:
            raise SceneError(
                f"{dataset.found} names no photographs: export it again, with the photographs that have poses"
            )
        raise SceneError(
            f"none of the {len(skipped)} photographs of {dataset.found} can be used in {dataset.photos}: {skipped[0]}; "
            f"{_advice(dataset, skipped)}"
        )
    _check_masks(views, options)
    chosen = dataset.points
    if options.points is not None:
        chosen = relative_to(read_point_cloud(Path(options.points)), dataset.origin)
    if options.crop is not None:
        options = dataclasses.replace(options, crop=relative_crop(options.crop, dataset.origin))
    points, colors, dropped = kept_points(chosen, options)
    found = dataset.found + filters_without_effect(chosen, options) + not_read(finder.unread_files())
    missing = sorted(finder.depths.missing)
    return Scene(root, views, points, colors, skipped, dropped, found, dataset.test_names, dataset.origin, missing)


def _check_masks(views: Sequence[View], options: SceneOptions) -> None:
    """SceneError if none of the views has a mask in the folder that the user named."""
    if options.masks not in (None, NO_MASKS) and not any(view.mask for view in views):
        raise SceneError(
            f"{options.masks} has no mask for any of the {len(views):,} photographs: name them like these, such as "
            f"{views[0].name}.png, or give --masks none"
        )


def _advice(dataset: Dataset, skipped: list[str]) -> str:
    """Advice if no photograph can be used: another camera model, or the subfolder of the first one, for --images."""
    if all(IMPOSSIBLE in line for line in skipped):
        return "estimate the poses with another camera model (`splat sfm --camera-model`; OPENCV_FISHEYE for a fisheye)"
    name = dataset.frames[0].name if dataset.frames else ""
    with suppress(Unusable):
        found = Path(ImageIndex(dataset.photos).find_label(name)).as_posix()
        if name and found.endswith(f"/{name}"):
            folder = dataset.photos / found.removesuffix(name)
            return f"{name} is in {folder}: give --images {folder}"
    return "check --images and that the photographs are complete"


def _why_no_folder(root: Path) -> str:
    if root.parts[:1] in (("http:",), ("https:",)):
        return "is an address: download it, and give the file or folder"
    return "does not exist; give a folder of photographs, a video, or a scene with camera poses"


def _views(finder: ImageLocator, dataset: Dataset) -> tuple[list[View], list[str]]:
    """Views sorted by name, and the photographs left out, as "name: reason".

    A photograph at two poses is left out: names of some formats have no folders, and any pose may be that of another.
    """
    views: dict[str, View] = {}
    files: dict[str, View] = {}
    skipped, ambiguous = [], set()
    for frame in dataset.frames:
        try:
            view = views.get(frame.name) or finder.view(frame)
            first = files.setdefault(str(view.path).casefold(), view)
            assert first.path is not None
            assert view.path is not None
            is_twin = frame.name in views or (first is not view and first.path.samefile(view.path))
            if is_twin and not np.allclose(first.w2c, frame.w2c, rtol=1e-4, atol=1e-4):
                ambiguous.add(first.name)
            if is_twin:
                raise Unusable(f"a second image of {'this name' if first is view else first.path.name}")
            views[frame.name] = view
        except Unusable as reason:
            skipped.append(f"{shown_name(frame.name)}: {reason}")
    skipped += [f"{shown_name(name)}: an image of this name has another pose" for name in sorted(ambiguous)]
    kept = sorted(views.keys() - ambiguous)
    return [views[name] for name in kept], skipped

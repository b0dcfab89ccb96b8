"""From a scene's folder to its views and points."""

from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.colmap import find_model, read_model
from splat_cli.scene.colmap.model import Camera, Image, Model
from splat_cli.scene.images import image_size
from splat_cli.scene.pinhole import Pinhole, pinhole, resized
from splat_cli.scene.view import Scene, View


def read_scene(
    path: str | Path, images: str | Path | None = None, max_size: int | None = None, downscale: float = 1
) -> Scene:
    """Reads the COLMAP model in `path` and finds its photographs, without decoding them.

    images: their folder, looked for in the scene's folder first; by default `images` beside the model.
    max_size: limit of a view's longer side in pixels. downscale: views are this many times smaller than photographs.
    Photographs that cannot be used are listed in `Scene.skipped`. SceneError where the scene cannot be read or no
    photograph can be used.
    """
    root = Path(path)
    if not root.is_dir():
        raise SceneError(f"{root} is not a folder; give the folder that holds the photographs and the COLMAP model")
    if downscale < 1 or (max_size is not None and max_size < 1):
        raise SceneError(f"downscale is {downscale} and max size {max_size}; both must be at least 1")
    model_folder = find_model(root)
    model = read_model(model_folder)
    photos = _photo_folder(root, model_folder, images)
    views, skipped = _views(model, photos, max_size, downscale)
    if not views:
        first = f": {skipped[0]}" if skipped else ""
        raise SceneError(
            f"none of the {len(skipped)} photographs of {model_folder} can be used in {photos}{first}; "
            "check --images and that the photographs are complete"
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is dropped
        points = model.points.astype(np.float32)
    finite = np.isfinite(points).all(axis=1)
    return Scene(root, views, points[finite], model.colors[finite], skipped, int((~finite).sum()))


def _photo_folder(root: Path, model_folder: Path, images: str | Path | None) -> Path:
    """The folder of the photographs, or SceneError."""
    if images is not None:
        candidates = [root / images, Path(images)]
    else:
        candidates = [folder / "images" for folder in (root, *model_folder.resolve().parents[:3])]
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise SceneError(f"there is no folder {candidates[0]}; name the folder of the photographs with --images DIR")


def _views(model: Model, photos: Path, max_size: int | None, downscale: float) -> tuple[list[View], list[str]]:
    """Views sorted by name, and the images left out as "name: reason"."""
    views: dict[str, View] = {}
    skipped = []
    lenses: dict[int, Pinhole] = {}
    for image in model.images:
        name = image.name if image.name.isprintable() else ascii(image.name)[1:-1]
        try:
            if name in views:
                raise _Unusable("a second image of this name")
            camera = model.cameras.get(image.camera_id)
            if camera is None:
                raise _Unusable(f"its camera {image.camera_id} is not in the model")
            lens = lenses.get(camera.id) or lenses.setdefault(camera.id, pinhole(camera))
            views[name] = _view(name, image, camera, lens, photos, max_size, downscale)
        except _Unusable as reason:
            skipped.append(f"{name}: {reason}")
    return [views[name] for name in sorted(views)], sorted(skipped)


class _Unusable(Exception):
    """Why one photograph is left out."""


def _view(
    name: str, image: Image, camera: Camera, lens: Pinhole, photos: Path, max_size: int | None, downscale: float
) -> View:
    w2c = image.w2c()
    if not np.isfinite(w2c).all():
        raise _Unusable("its pose is not finite")
    relative = Path(image.name)
    if relative.is_absolute() or ".." in relative.parts:
        raise _Unusable("its name leads out of the image folder")
    path = photos / relative
    try:
        width, height = image_size(path)
    except ValueError as error:
        raise _Unusable(str(error)) from error
    ratio = (width / camera.width) / (height / camera.height)
    if abs(ratio - 1) > 0.01:
        raise _Unusable(f"is {width}x{height}, but its camera is {camera.width}x{camera.height}")
    scale = 1 / downscale
    if max_size is not None:
        scale = min(scale, max_size / max(width, height))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    fx, fy, cx, cy = resized(lens, (camera.width, camera.height), size)
    return View(name, path, *size, fx, fy, cx, cy, w2c)

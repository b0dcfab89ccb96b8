"""A COLMAP model as a dataset."""

from pathlib import Path

from splat_cli.errors import SceneError
from splat_cli.scene.colmap import find_model, has_model, largest_beside, read_model
from splat_cli.scene.colmap.model import Camera, Model
from splat_cli.scene.colmap.zipped import find_zip, unzipped_model
from splat_cli.scene.dataset import Dataset, Frame, Points, sanitize_name
from splat_cli.scene.images.locate import image_folder
from splat_cli.scene.lens import Lens, lens_of
from splat_cli.scene.options import SceneOptions


def find_colmap(root: Path) -> Path | None:
    """The folder of the model under `root`, or a zip file there that holds one."""
    return find_model(root) if has_model(root) else find_zip(root)


def read_colmap(root: Path, options: SceneOptions) -> Dataset:
    """The model in `root`, or in a zip file there. Raises SceneError."""
    archive = None if has_model(root) else find_zip(root)
    if archive is not None:
        with unzipped_model(archive) as folder:
            return _dataset(read_model(folder), f"the COLMAP model in {archive}", image_folder(root, archive, options))
    folder = find_model(root)
    model = read_model(folder)
    dataset = _dataset(model, f"the COLMAP model in {folder}", image_folder(root, folder, options))
    if (other := largest_beside(folder, len(model.images))) is not None:
        dataset.found += f" ({other[0]} has {other[1]:,} photographs: give that folder for them)"
    return dataset


def _dataset(model: Model, found: str, photos: Path) -> Dataset:
    frames, skipped = [], []
    lenses: dict[int, Lens] = {}
    for image in model.images:
        name = sanitize_name(image.name)
        camera = model.cameras.get(image.camera_id)
        if camera is None:
            skipped.append(f"{name}: its camera {image.camera_id} is not in the model")
            continue
        if camera.id not in lenses:
            lenses[camera.id] = _lens(camera, found)
        frames.append(Frame(name, image.name, lenses[camera.id], image.w2c(), camera_id=camera.id))
    points = Points(model.points, model.colors, model.errors, model.track_lengths)
    return Dataset(found, photos, frames, points, skipped)


def _lens(camera: Camera, found: str) -> Lens:
    try:
        return lens_of(camera)
    except SceneError as error:
        raise SceneError(f"{found}: {error}") from error

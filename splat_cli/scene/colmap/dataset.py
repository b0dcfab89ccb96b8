"""A COLMAP model as a dataset."""

from pathlib import Path

from splat_cli.errors import SceneError
from splat_cli.scene.colmap import find_model, has_model, larger_sibling, read_model
from splat_cli.scene.colmap.model import Image, Model
from splat_cli.scene.colmap.zipped import find_zip, unzipped_model
from splat_cli.scene.dataset import Dataset, Frame, Points, Unusable, sanitize_name, usable_frames
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
    if (other := larger_sibling(folder, len(model.images))) is not None:
        dataset.found += f" ({other[0]} has {other[1]:,} photographs: give that folder for them)"
    return dataset


def _dataset(model: Model, found: str, photos: Path) -> Dataset:
    lenses, unusable = _lenses(model)

    def frame(name: str, image: Image) -> Frame:
        if image.camera_id in unusable:
            raise Unusable(f"its {unusable[image.camera_id]}")
        if image.camera_id not in lenses:
            raise Unusable(f"its camera {image.camera_id} is not in the model")
        return Frame(sanitize_name(name), name, lenses[image.camera_id], image.w2c(), camera_id=image.camera_id)

    frames, skipped = usable_frames(((image.name, image) for image in model.images), frame)
    if not frames and unusable:
        raise SceneError(f"{found}: {next(iter(unusable.values()))}")
    points = Points(model.points, model.colors, model.errors, model.track_lengths)
    return Dataset(found, photos, frames, points, skipped)


def _lenses(model: Model) -> tuple[dict[int, Lens], dict[int, str]]:
    """By camera id: lenses of the cameras that images use, and reasons why other cameras cannot be used."""
    lenses, unusable = {}, {}
    for camera_id in sorted({image.camera_id for image in model.images} & model.cameras.keys()):
        try:
            lenses[camera_id] = lens_of(model.cameras[camera_id])
        except SceneError as error:
            unusable[camera_id] = str(error)
    return lenses, unusable

"""A COLMAP model, in a folder or a zip file, as a dataset."""

import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from splat_cli.errors import ZIP_ERRORS, SceneError
from splat_cli.io.archives import check_member, max_unpacked_bytes, open_zip, unzip_error
from splat_cli.scene.colmap import FILES, find_model, has_model, larger_sibling, model_folders, read_model
from splat_cli.scene.colmap.model import Image, Model, lens_of
from splat_cli.scene.dataset import (
    Dataset,
    Frame,
    Points,
    SceneOptions,
    Unusable,
    not_read,
    sanitize_name,
    usable_frames,
)
from splat_cli.scene.images.locate import image_folder
from splat_cli.scene.lens import Lens

_NAMES = {f"{stem}{suffix}" for stem in FILES for suffix in (".bin", ".txt")}
_CHUNK = 1 << 20


def find_zip(root: Path) -> Path | None:
    """The first zip file in `root` that contains a model; damaged ones are skipped."""
    return next((path for path, _, _ in _zipped_models(root)), None)


def _zipped_models(root: Path) -> Iterator[tuple[Path, PurePosixPath, int]]:
    """Zip files in `root`, folders of models in them, and the bytes of their lists of images, sorted."""
    for path in filter(Path.is_file, sorted(root.glob("*.zip"))):
        try:
            with open_zip(path) as archive:
                files = {PurePosixPath(member.filename): member.file_size for member in archive.infolist()}
        except ZIP_ERRORS:
            continue
        for folder in sorted({file.parent for file in files if file.name in _NAMES}):
            yield path, folder, max(files.get(folder / f"images{suffix}", 0) for suffix in (".bin", ".txt"))


def _larger_zipped(root: Path) -> str:
    """Note on a model in a zip file whose list of images is larger than that of the first, which is read; or empty."""
    models = list(_zipped_models(root))
    path, folder, size = max(models, key=lambda model: model[2])
    if size <= models[0][2]:
        return ""
    name = path if folder == PurePosixPath() else f"{folder} in {path}"
    return f" ({name} has a larger list of images: unpack it, and give that folder)"


@contextmanager
def unzipped_model(path: Path) -> Iterator[Path]:
    """Yield a temporary folder with the model's files. SceneError if the archive is damaged or a zip bomb."""
    with tempfile.TemporaryDirectory(prefix="splat-") as folder:
        try:
            with open_zip(path) as archive:
                for member in _members(archive, max_unpacked_bytes(path)):
                    _unpack(archive, member, Path(folder) / PurePosixPath(member.filename).name)
        except ZIP_ERRORS as error:
            raise unzip_error(path, Path(folder), error) from error
        yield Path(folder)


def _members(archive: zipfile.ZipFile, limit: int) -> list[zipfile.ZipInfo]:
    """Files of the model in the first folder of the archive that has any (`sparse/0` before `sparse/1`).

    ValueError if they unpack to more than `limit` bytes in total, or one is duplicated.
    """
    found = [member for member in archive.infolist() if PurePosixPath(member.filename).name in _NAMES]
    folder = min(PurePosixPath(member.filename).parent for member in found)
    found = [member for member in found if PurePosixPath(member.filename).parent == folder]
    names = Counter(PurePosixPath(member.filename).name for member in found)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{repeated[0]} is in it {names[repeated[0]]} times")
    if (size := sum(member.file_size for member in found)) > limit:
        raise ValueError(f"it would unpack to {size:,} bytes; the maximum is {limit:,}")
    for member in found:
        check_member(member)
    return found


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    left = member.file_size
    with archive.open(member) as source, target.open("wb") as out:
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"{target.name} is longer than it says")
            out.write(chunk)


def find_colmap(root: Path) -> Path | None:
    """The folder of the model under `root`, or a zip file there that contains one."""
    return find_model(root) if has_model(root) else find_zip(root)


def read_colmap(root: Path, options: SceneOptions) -> Dataset:
    """The model in `root`, or in a zip file there. Raises SceneError."""
    archive = None if has_model(root) else find_zip(root)
    if archive is not None:
        with unzipped_model(archive) as folder:
            found = f"the COLMAP model in {archive}{_larger_zipped(root)}"
            return _dataset(read_model(folder), found, image_folder(root, archive, options))
    folder = find_model(root)
    model = read_model(folder)
    others = [f"the model in {other}" for other in model_folders(root) if other != folder]
    if (folder / "images.bin").is_file() and (folder / "images.txt").is_file():
        others.append(f"the text files in {folder}")
    dataset = _dataset(model, f"the COLMAP model in {folder}", image_folder(root, folder, options))
    if (other := larger_sibling(folder, len(model.images))) is not None:
        dataset.found += f" ({other[0]} has {other[1]:,} photographs: give that folder for them)"
    dataset.found += not_read(others)
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
    """Camera id -> lens, for cameras that images use; camera id -> reason why other cameras cannot be used."""
    lenses, unusable = {}, {}
    for camera_id in sorted({image.camera_id for image in model.images} & model.cameras.keys()):
        try:
            lenses[camera_id] = lens_of(model.cameras[camera_id])
        except SceneError as error:
            unusable[camera_id] = str(error)
    return lenses, unusable

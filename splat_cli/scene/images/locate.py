"""Conversion of a dataset's frames to views: location of photographs, masks and depth maps, checks of sizes.

Names in a dataset may differ from those of the files in case, folders or suffix.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.image_files import PHOTOGRAPH_SUFFIXES
from splat_cli.io.json_input import number, parse_json, read_json_text
from splat_cli.scene.colmap import has_model
from splat_cli.scene.dataset import (
    NO_MASKS,
    Dataset,
    Frame,
    SceneOptions,
    Unusable,
    file_inside,
    folded,
    path_ends,
    sanitize_name,
)
from splat_cli.scene.depth_maps import DEPTH_SUFFIXES
from splat_cli.scene.images.decode import image_size
from splat_cli.scene.lens import MAX_SIDE, Lens
from splat_cli.scene.lens.distortion import Equirectangular, Polynomial
from splat_cli.scene.view import MAX_NUMBER, DepthFile, View


class ImageIndex:
    """The files below `folder`, at any depth, listed on first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_path(self, name: str) -> Path | None:
        """The only file with this path below the folder, by `folded`; None if no file or several files match.

        The path may start with the folder's name or `images`.
        """
        ends = path_ends(name)
        heads = [folded(end.partition("/")[0]) for end in ends]
        inside = [ends[i + 1] for i, head in enumerate(heads[:-1]) if head in ("images", folded(self.folder.name))]
        return next(filter(None, map(self.find_alike, (*ends[:1], *inside))), None)

    def find_alike(self, path: str) -> Path | None:
        """The only file with this path below the folder, by `folded`, or None."""
        found = self._by_path.get(folded(path), [])
        return self.folder / found[0] if len(found) == 1 else None

    def without_photograph(self, photographs: ImageIndex, read: Collection[Path]) -> list[Path]:
        """Files below this folder, not hidden nor read, that have the name of no photograph, with or without suffix."""
        files = (self.folder / file for file in self._files if not file.name.startswith("."))
        shown = (path for path in files if path not in read)
        names = ((path, str(path.relative_to(self.folder).with_suffix(""))) for path in shown)
        return [path for path, name in names if folded(name) not in photographs._by_end_any_case]

    def find_label(self, label: str) -> str:
        """The photograph, relative to the folder, for a camera's label: a name or path, with or without suffix.

        The label's own suffix counts before others, then equal case, then the longest matching end of the path, then
        the fewest folders. Unusable if there is no match or more than one, such as equal names in two folders, or 1.jpg
        and 1.png for the label 1.
        """
        ends = path_ends(label)
        stems = [str(Path(end).with_suffix("")) for end in ends]
        for key, files in (match for keys in (ends, stems) for match in self._matches(keys)):
            name = folded(PurePosixPath(key).name)
            files = [file for file in files if folded(file.name) == name] or files  # a.jpg before a.jpg.png
            best = [file for file in files if len(file.parts) == min(len(other.parts) for other in files)]
            if len(best) > 1:
                raise Unusable(f"several photographs have this name: {best[0]}, {best[1]}; keep one of them")
            if best:
                return str(best[0])
        raise Unusable(f"there is no such photograph in {self.folder}")

    def _matches(self, keys: Sequence[str]) -> Iterator[tuple[str, list[Path]]]:
        """Ends of paths and photographs with them, those with equal case first."""
        yield from ((key, self._by_end.get(key, [])) for key in keys)
        yield from ((key, self._by_end_any_case.get(folded(key), [])) for key in keys)

    def size(self, file: str) -> tuple[int, int]:
        """(width, height) of a file in the folder, px. Unusable if it is not an image."""
        try:
            return image_size(self.folder / file)
        except ValueError as error:
            raise Unusable(str(error)) from error

    @cached_property
    def _files(self) -> list[Path]:
        """All files, relative to the folder."""
        found = (Path(folder, name) for folder, _, names in os.walk(self.folder) for name in names)
        return sorted(path.relative_to(self.folder) for path in found)

    @cached_property
    def _by_path(self) -> dict[str, list[Path]]:
        """Files by `folded` path."""
        files = defaultdict(list)
        for file in self._files:
            files[folded(file.as_posix())].append(file)
        return files

    @cached_property
    def _by_end(self) -> dict[str, list[Path]]:
        """Photographs by each end of their paths, with and without suffix."""
        files = defaultdict(list)
        for file in self._files:
            if file.suffix.lower() in PHOTOGRAPH_SUFFIXES:
                for end in (*path_ends(str(file)), *path_ends(str(file.with_suffix("")))):
                    files[end].append(file)
        return files

    @cached_property
    def _by_end_any_case(self) -> dict[str, list[Path]]:
        """Photographs by each `folded` end of their paths, with and without suffix."""
        files: dict[str, list[Path]] = defaultdict(list)
        for end, found in self._by_end.items():
            files[folded(end)] += found
        return files


_RATIO_TOLERANCE = 0.01
_WHOLE = 16
NO_DEPTHS = "none"
DEPTH_FOLDERS = ("depths", "depth")
_CONFIDENCE = "confidence"
_SCALES = ("sparse/0/depth_params.json", "sparse/depth_params.json", "depth_params.json")
_RELIABLE = 5.0  # largest factor between the scale of a map and the median, as in the INRIA code


def image_folder(root: Path, beside: Path, options: SceneOptions) -> Path:
    """Folder of the photographs: as given, images_N for --downscale N, or images; SceneError if missing.

    beside: folder of the dataset's files; `images` is searched there and up to three levels above.
    """
    if options.images is not None:
        return given_image_folder(root, options.images)
    candidates = [folder / "images" for folder in (root, *beside.resolve().parents[:3])]
    for folder in candidates:
        smaller = folder.with_name(f"{folder.name}_{options.downscale}")
        if options.downscale > 1 and smaller.is_dir():
            return smaller
        if folder.is_dir():
            return folder
    others = sorted(path.name for path in root.glob("*") if _has_photographs(path))
    named = f", such as --images {others[0]}" if others else ""
    raise SceneError(f"there is no folder {candidates[0]}; name the folder of the photographs with --images DIR{named}")


def given_image_folder(root: Path, images: str | Path) -> Path:
    """The folder of --images, relative to the scene or to the current folder. SceneError if it is missing."""
    for folder in (root / images, Path(images)):
        if folder.is_dir():
            return folder
    raise SceneError(
        f"there is no folder {images}: --images DIR is relative to the scene, {root}, or to the current folder"
    )


def export_image_folder(root: Path, options: SceneOptions) -> Path:
    """Folder of an export's photographs: --images, else ROOT/images, else ROOT. SceneError if missing."""
    has_folder = options.images is not None or (root / "images").is_dir()
    return image_folder(root, root, options) if has_folder else root


def _has_photographs(folder: Path) -> bool:
    return any(path.suffix.lower() in PHOTOGRAPH_SUFFIXES for path in folder.glob("*"))


class NamedFiles:
    """Files of photographs in a folder, named like these: NAME.jpg.png or NAME.png.

    suffixes: of the files. twins: photographs whose `folded` name others have, too: their files have to be exact.
    """

    def __init__(self, folder: Path, suffixes: Sequence[str], twins: frozenset[str]) -> None:
        self.index, self._suffixes, self._twins = ImageIndex(folder), suffixes, twins
        self.found, self._num_missing = set[Path](), 0

    @property
    def is_partial(self) -> bool:
        """Whether files were found for some photographs and not for others."""
        return len(self.found) > 0 < self._num_missing

    def find(self, photograph: str) -> Path | None:
        """The file of a photograph, with its suffix or without; names that are equal by `folded` come last."""
        names = [f"{photograph}{suffix}" for suffix in self._suffixes]
        names += [str(Path(photograph).with_suffix(suffix)) for suffix in self._suffixes]
        found = next((path for path in (self.index.folder / name for name in names) if path.is_file()), None)
        if found is None and folded(photograph) not in self._twins:
            found = next(filter(None, map(self.index.find_alike, names)), None)
        if found is None:
            self._num_missing += 1
        else:
            self.found.add(found)
        return found


class ImageLocator:
    """Converts frames of a dataset to views, according to the options."""

    def __init__(self, root: Path, dataset: Dataset, options: SceneOptions) -> None:
        self.root, self.photos, self.options = root, dataset.photos, options
        self._homes = _homes(root, dataset.photos)
        counts = Counter(folded(frame.file) for frame in dataset.frames)
        twins = frozenset(name for name, count in counts.items() if count > 1)
        masks = self._mask_folder()
        self.masks = None if masks is None else NamedFiles(masks, (".png",), twins)
        self.depths = DepthLocator(root, self._homes, options.depths, twins)
        self._lenses: dict[tuple[Lens, int, int], Lens] = {}
        self._ids: dict[Lens, int] = {}
        self._index = ImageIndex(dataset.photos)
        self.is_downscaled = options.images is None and dataset.photos.name == f"images_{options.downscale}"

    def view(self, frame: Frame) -> View:
        """The view; Unusable if its photograph is missing, damaged or of another camera, or its lens is invalid."""
        if not np.isfinite(frame.w2c).all():
            raise Unusable("its pose is not finite")
        path = self._photograph(frame.file)
        width, height = _checked_size(path, frame.lens)
        self._check_downscaled(path, width, frame.lens.width)
        lens = self._lens(frame.lens, width, height)
        is_kept = self.options.lens == "keep" or isinstance(lens.distortion, Equirectangular)
        kept, shutter = (lens.distortion, frame.rolling_shutter) if is_kept else (None, None)
        if shutter is not None and kept is None:
            kept = Polynomial()
        try:
            pinhole = lens.matrix if kept else lens.pinhole
        except SceneError as error:
            raise Unusable(str(error)) from error
        camera = pinhole.resized(*self._size(pinhole.width, pinhole.height, isinstance(kept, Equirectangular)))
        view = View(
            frame.name,
            path,
            camera.width,
            camera.height,
            camera.fx,
            camera.fy,
            camera.cx,
            camera.cy,
            frame.w2c,
            lens=lens if lens.distortion and not kept else None,
            mask=self._mask(frame),
            camera_id=self._camera_id(frame),
            depth=self.depths.find(frame),
            distortion=kept,
            rolling_shutter=shutter,
        )
        if not view.is_in_range:
            raise Unusable(f"the position or lens of its camera has numbers that are not below {MAX_NUMBER:g}")
        return view

    def _photograph(self, file: str) -> Path:
        """The file, which may be missing. Unusable for a name that leads out of the folder."""
        try:
            path = file_inside(self.photos, file)
        except Unusable:
            if (found := self._index.find_path(file)) is None:
                raise
            return found
        return path if os.path.lexists(path) else self._index.find_path(file) or path

    def _camera_id(self, frame: Frame) -> int:
        if frame.camera_id is not None:
            return frame.camera_id
        return self._ids.setdefault(frame.lens, len(self._ids))

    def _lens(self, lens: Lens, width: int, height: int) -> Lens:
        """The lens at the photograph's size; cached, because its pinhole camera is expensive to compute."""
        key = (lens, width, height)
        if key not in self._lenses:
            is_whole = (width, height) == (lens.width, lens.height)
            self._lenses[key] = lens if is_whole else lens.resized(width, height)
        return self._lenses[key]

    def _size(self, width: int, height: int, is_spherical: bool) -> tuple[int, int]:
        """Size of the view, in pixels, from the size of the photograph, undistorted unless its lens is kept.

        The width of spherical views can be halved four times: their edges then still meet.
        """
        scale = 1 if self.is_downscaled else 1 / self.options.downscale
        if self.options.max_size is not None:
            scale = min(scale, self.options.max_size / max(width, height))
        if is_spherical:
            columns = _WHOLE * max(1, round(width * scale / _WHOLE))
            return columns, max(1, round(columns * height / width))
        return max(1, round(width * scale)), max(1, round(height * scale))

    def _check_downscaled(self, path: Path, width: int, camera_width: int) -> None:
        if self.is_downscaled and abs(width * self.options.downscale - camera_width) > self.options.downscale:
            raise SceneError(
                f"{path} is {width} pixels wide, not 1/{self.options.downscale} of its camera's {camera_width}: "
                f"make {path.parent.name} again, or give --images images"
            )

    def _mask_folder(self) -> Path | None:
        masks = self.options.masks
        if masks == NO_MASKS:
            return None
        folders = [home / (masks or "masks") for home in self._homes]
        for folder in folders if masks is None else [*folders, Path(masks)]:
            if folder.is_dir():
                return folder
        if masks is None:
            return None
        raise SceneError(f"there is no folder {masks}; name the folder of the masks with --masks DIR")

    def _mask(self, frame: Frame) -> Path | None:
        """The file named by the dataset, unless --masks is given; else masks/NAME.jpg.png or masks/NAME.png."""
        if self.options.masks == NO_MASKS:
            return None
        if frame.mask is not None and self.options.masks is None:
            return file_inside(self.root, frame.mask, from_elsewhere=True)
        return None if self.masks is None else self.masks.find(frame.file)

    def unread_files(self) -> list[str]:
        """Masks and depth maps that have the name of no photograph, if only some photographs have one."""
        kinds = (files for files in (self.masks, self.depths.files) if files is not None and files.is_partial)
        return [str(path) for files in kinds for path in files.index.without_photograph(self._index, files.found)]


def _homes(root: Path, photos: Path) -> list[Path]:
    """Folders of masks and depth maps: `root`, and that of the photographs if `root` is a model in it (sparse/1)."""
    above = photos.resolve().parent
    return [root, above] if has_model(root) and above in root.resolve().parents else [root]


def _checked_size(path: Path, lens: Lens) -> tuple[int, int]:
    """Width and height of a photograph. Unusable if it is missing, damaged, too large or of another camera."""
    try:
        width, height = image_size(path)
    except ValueError as error:
        raise Unusable(str(error)) from error
    ratio = (width / lens.width) / (height / lens.height)
    if abs(ratio - 1) > _RATIO_TOLERANCE:
        raise Unusable(_other_size(width, height, lens))
    if max(width, height) > MAX_SIDE:
        raise Unusable(f"is {width}x{height}; sides may have up to {MAX_SIDE} pixels")
    return width, height


def _other_size(width: int, height: int, lens: Lens) -> str:
    """Message for a photograph whose size differs from its camera's, perhaps because software applied EXIF rotation."""
    difference = f"is {width}x{height}, but its camera is {lens.width}x{lens.height}"
    is_turned = abs(width * lens.width / (height * lens.height) - 1) <= _RATIO_TOLERANCE
    return f"{difference}: turn it as it was when poses were estimated" if is_turned else difference


class DepthLocator:
    """Finds the depth maps of frames.

    homes: folders that may hold that of the maps. wanted: its name in one of these, or its path; None: maps that the
    dataset names, else `depths` or `depth`; "none": no maps. SceneError for a folder that is missing, or a
    depth_params.json that cannot be read.
    missing: maps that the dataset names and that are missing, as "photograph: reason".
    """

    def __init__(
        self, root: Path, homes: Sequence[Path], wanted: str | Path | None, twins: frozenset[str] = frozenset()
    ) -> None:
        self.root, self.homes, self.is_off, self.is_given = root, homes, wanted == NO_DEPTHS, wanted is not None
        self.missing: list[str] = []
        self.folder = None if self.is_off else self._folder(wanted)
        self.files = self._confidences = None
        if self.folder is not None:
            self.files = NamedFiles(self.folder, DEPTH_SUFFIXES, twins)
            self._confidences = NamedFiles(self.folder.parent / _CONFIDENCE, DEPTH_SUFFIXES, twins)
        self.scales = None if self.folder is None else self._read_scales()

    def find(self, frame: Frame) -> DepthFile | None:
        """The frame's depth map: DEPTHS/NAME.jpg.png, DEPTHS/NAME.png (.npy, .exr, .tif), or as the dataset names it.

        Confidences: a folder `confidence` next to DEPTHS, with the same names.
        """
        if self.is_off:
            return None
        if frame.depth is not None and not self.is_given:
            named = frame.depth
            path, confidence = self._existing(named.file), self._existing(named.confidence)
            if path is None:
                self.missing.append(f"{frame.name}: its depth map {sanitize_name(named.file)} is missing")
                return None
            return DepthFile(path, confidence, named.unit, is_metric=True)
        path = None if self.files is None else self.files.find(frame.file)
        if path is None or self._confidences is None:
            return None
        confidence = self._confidences.find(frame.file)
        if self.scales is None:
            return DepthFile(path, confidence)
        scale = self.scales.get(str(Path(frame.file).with_suffix("")))
        return None if scale is None else DepthFile(path, confidence, inverse=scale)

    def _existing(self, file: str | None) -> Path | None:
        """The file in the scene's folder, if it exists."""
        try:
            path = None if file is None else file_inside(self.root, file, from_elsewhere=True)
            return path if path is not None and path.is_file() else None
        except (Unusable, OSError, ValueError):  # leads out of the folder, or is not a valid file name
            return None

    def _folder(self, wanted: str | Path | None) -> Path | None:
        if wanted is None:
            return next(filter(Path.is_dir, (home / name for home in self.homes for name in DEPTH_FOLDERS)), None)
        folder = next(filter(Path.is_dir, (*(home / wanted for home in self.homes), Path(wanted))), None)
        if folder is None:
            raise SceneError(f"there is no folder {wanted}; name the folder of the depth maps with --depths DIR")
        return folder

    def _read_scales(self) -> dict[str, tuple[float, float]] | None:
        """Name of a photograph without suffix -> (scale, offset) of depth_params.json; None without such a file.

        Maps whose scale is far from the others' are left out.
        """
        path = next((self.root / name for name in _SCALES if (self.root / name).is_file()), None)
        if path is None:
            return None
        try:
            entries = {
                name: (number(values, "scale"), number(values, "offset"))
                for name, values in parse_json(read_json_text(path)).items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise SceneError(
                f"{path} is not a table of `scale` and `offset` of depth maps: make it again, or give --depths none"
            ) from None
        positive = [scale for scale, _ in entries.values() if scale > 0]
        middle = float(np.median(positive)) if positive else 0.0
        return {
            name: entry for name, entry in entries.items() if middle / _RELIABLE <= entry[0] <= middle * _RELIABLE > 0
        }

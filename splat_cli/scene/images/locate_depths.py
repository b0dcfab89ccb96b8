"""Location of depth maps and their confidences beside photographs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.json_input import parse_json, read_json_text
from splat_cli.scene.dataset import Frame, Unusable, file_inside, sanitize_name
from splat_cli.scene.depth_maps.files import DEPTH_SUFFIXES
from splat_cli.scene.view import DepthFile

NO_DEPTHS = "none"
_FOLDERS = ("depths", "depth")
_CONFIDENCE = "confidence"
_SCALES = ("sparse/0/depth_params.json", "sparse/depth_params.json", "depth_params.json")
_RELIABLE = 5.0  # largest factor between the scale of a map and the median, as in the INRIA code


class DepthLocator:
    """Finds the depth maps of frames.

    wanted: folder, of the scene or any; None: what the dataset names, else `depths` or `depth` of the scene; "none":
    nothing. SceneError for a folder that is missing, or a depth_params.json that cannot be read.
    missing: maps that the dataset names and that are not there, as "photograph: reason".
    """

    def __init__(self, root: Path, wanted: str | Path | None) -> None:
        self.root, self.is_off, self.is_given = root, wanted == NO_DEPTHS, wanted is not None
        self.missing: list[str] = []
        self.folder = None if self.is_off else self._folder(wanted)
        self.scales = None if self.folder is None else self._read_scales()

    def find(self, frame: Frame) -> DepthFile | None:
        """The frame's depth map: DEPTHS/NAME.jpg.png, DEPTHS/NAME.png (.npy, .exr, .tif), or as the dataset names it.

        Confidences: a folder `confidence` beside DEPTHS, with the same names.
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
        path = self.folder and _named(self.folder, frame.file)
        if self.folder is None or path is None:
            return None
        confidence = _named(self.folder.with_name(_CONFIDENCE), frame.file)
        if self.scales is None:
            return DepthFile(path, confidence)
        scale = self.scales.get(str(Path(frame.file).with_suffix("")))
        return None if scale is None else DepthFile(path, confidence, inverse=scale)

    def _existing(self, file: str | None) -> Path | None:
        """The file of the scene's folder, if it is there."""
        try:
            path = None if file is None else file_inside(self.root, file, from_elsewhere=True)
            return path if path is not None and path.is_file() else None
        except (Unusable, OSError, ValueError):  # leads out of the folder, or is no name that a file may have
            return None

    def _folder(self, wanted: str | Path | None) -> Path | None:
        if wanted is None:
            return next((self.root / name for name in _FOLDERS if (self.root / name).is_dir()), None)
        folder = next((path for path in (self.root / wanted, Path(wanted)) if path.is_dir()), None)
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
            entries = {name: _scale(values) for name, values in parse_json(read_json_text(path)).items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise SceneError(
                f"{path} is not a table of `scale` and `offset` of depth maps: make it again, or give --depths none"
            ) from None
        positive = [scale for scale, _ in entries.values() if scale > 0]
        middle = float(np.median(positive)) if positive else 0.0
        return {
            name: entry for name, entry in entries.items() if middle / _RELIABLE <= entry[0] <= middle * _RELIABLE > 0
        }


def _scale(values: dict[str, float]) -> tuple[float, float]:
    scale, offset = float(values["scale"]), float(values["offset"])
    if not (math.isfinite(scale) and math.isfinite(offset)):
        raise ValueError("not finite")
    return scale, offset


def _named(folder: Path, file: str) -> Path | None:
    """The file of a photograph's name in the folder, with the photograph's suffix or without."""
    path = folder / file
    candidates = [Path(f"{path}{suffix}") for suffix in DEPTH_SUFFIXES]
    candidates += [path.with_suffix(suffix) for suffix in DEPTH_SUFFIXES]
    return next((path for path in candidates if path.is_file()), None)

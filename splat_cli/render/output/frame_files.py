"""Files of a rendered frame: a PNG image and maps, each with a key that identifies its contents."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_cli.render.images import key_of, save_png, save_tiff, to_8bit
from splat_cli.render.rendered_maps import MIN_ALPHA, RenderedMaps

MAPS = ("alpha", "depth", "normal")
_MAX_LEVEL = 65535
_OPENGL = np.array([1, -1, -1], np.float32)
"""Camera coordinates (x right, y down, z forward) to those of normal maps (x right, y up, z towards the viewer)."""


@dataclass(frozen=True)
class FrameFiles:
    """Files to write per frame: a PNG image, and maps of the same name in folders named after the maps.

    maps: a subset of MAPS. transparent: the image has an alpha channel and no background. Depths: 16-bit PNG,
    `depth_levels` per world unit, clamped to 65535; or float32 TIFF ("tiff") in world units; 0 where there is no
    surface. Alpha: 0 to 255. Normals: 127.5 (1 + n), in camera coordinates with x right, y up and z towards the viewer.
    """

    maps: frozenset[str] = frozenset()
    transparent: bool = False
    depth_levels: float = 1000.0
    depth_format: str = "png"

    @property
    def needed_maps(self) -> frozenset[str]:
        """Maps to render."""
        return self.maps | {"alpha"} if self.transparent else self.maps

    def paths(self, image: Path, folder: Path) -> dict[str, Path]:
        """File of each map, for a frame with the image file `image` in or below `folder`."""
        beside = {name: folder / name / image.relative_to(folder) for name in sorted(self.maps)}
        if "depth" in beside:
            beside["depth"] = beside["depth"].with_suffix(f".{self.depth_format}")
        return {**beside, "color": image}

    def exceeds_range(self, frame: RenderedMaps) -> bool:
        """Whether depths of the frame exceed the range of its file."""
        far = frame.depth is not None and self.depth_format == "png"
        return far and float(frame.depth.max()) * self.depth_levels > _MAX_LEVEL + 0.5  # type: ignore[union-attr]

    def save(self, frame: RenderedMaps, paths: dict[str, Path], key: str) -> None:
        """Write the frame's files, the image last."""
        for name, path in paths.items():
            save = save_tiff if path.suffix == ".tiff" else save_png
            save(path, self._pixels(frame, name), key)

    def are_there(self, paths: dict[str, Path], key: str) -> bool:
        """Whether all files of a frame exist and carry `key`."""
        return all(key_of(path) == key for path in paths.values())

    def _pixels(self, frame: RenderedMaps, name: str) -> np.ndarray:
        maps = frame.maps()
        if name == "alpha":
            return to_8bit(maps["alpha"])
        if name == "normal":
            return to_8bit(0.5 + 0.5 * maps["normal"] * _OPENGL)
        if name == "depth" and self.depth_format == "png":
            return np.rint(np.clip(maps["depth"] * self.depth_levels, 0, _MAX_LEVEL)).astype(np.uint16)
        if name == "depth":
            return maps["depth"].astype(np.float32)
        if not self.transparent:
            return to_8bit(maps["color"])
        alpha = maps["alpha"][..., None]
        return to_8bit(np.concatenate([maps["color"] / np.maximum(alpha, MIN_ALPHA), alpha], axis=-1))


def remove_frames_from(folder: Path, number: int) -> int:
    """Remove frames `number`, `number` + 1, ... of a path with their maps; returns their number.

    They are left over from an earlier, longer path and would end up in a video made from the folder. Files without a
    key are not ours and are kept.
    """
    images = (folder / f"{i:05d}.png" for i in itertools.count(number))
    left = list(itertools.takewhile(lambda image: key_of(image) is not None, images))
    for image in reversed(left):  # backwards: after an interruption, the remaining ones are still found
        for name in MAPS:
            for path in (folder / name / image.name, (folder / name / image.name).with_suffix(".tiff")):
                if key_of(path) is not None:
                    path.unlink()
        image.unlink()
    return len(left)

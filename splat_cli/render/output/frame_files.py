"""Files of a rendered frame, with a key of their contents by which a later call recognises them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_cli.render.frame import MIN_ALPHA, RenderOutput
from splat_cli.render.pictures import key_of, save_png, save_tiff, to_8bit

MAPS = ("alpha", "depth", "normal")
_MOST = 65535
_OPENGL = np.array([1, -1, -1], np.float32)
"""From x right, y down, z forward to x right, y up, z towards the viewer."""


@dataclass(frozen=True)
class FrameFiles:
    """What is written of each frame: a picture PNG, and maps of the same name in folders called after them.

    maps: of MAPS. transparent: the picture has an alpha channel, and no background. Depths as 16-bit PNG with
    `depth_levels` to a world unit, cut to 65535, or as float32 TIFF ("tiff") in world units; 0 where there is nothing.
    Alpha is 0 to 255; normals are 127.5 (1 + n), in the camera's frame with x right, y up and z towards the viewer.
    """

    maps: frozenset[str] = frozenset()
    transparent: bool = False
    depth_levels: float = 1000.0
    depth_format: str = "png"

    @property
    def needed_maps(self) -> frozenset[str]:
        """What has to be rendered."""
        return self.maps | {"alpha"} if self.transparent else self.maps

    def paths(self, picture: Path, folder: Path) -> dict[str, Path]:
        """Name -> file, of a frame whose picture is `picture`, a file in or below `folder`."""
        beside = {name: folder / name / picture.relative_to(folder) for name in sorted(self.maps)}
        if "depth" in beside:
            beside["depth"] = beside["depth"].with_suffix(f".{self.depth_format}")
        return {**beside, "color": picture}

    def cuts(self, frame: RenderOutput) -> bool:
        """Whether the frame has depths that its file cannot hold."""
        far = frame.depth is not None and self.depth_format == "png"
        return far and float(frame.depth.max()) * self.depth_levels > _MOST + 0.5  # type: ignore[union-attr]

    def save(self, frame: RenderOutput, paths: dict[str, Path], key: str) -> None:
        """Writes the frame; the picture comes last."""
        for name, path in paths.items():
            save = save_tiff if path.suffix == ".tiff" else save_png
            save(path, self._pixels(frame, name), key)

    def are_there(self, paths: dict[str, Path], key: str) -> bool:
        """Whether all files of a frame are there and show what `key` stands for."""
        return all(key_of(path) == key for path in paths.values())

    def _pixels(self, frame: RenderOutput, name: str) -> np.ndarray:
        maps = frame.maps()
        if name == "alpha":
            return to_8bit(maps["alpha"])
        if name == "normal":
            return to_8bit(0.5 + 0.5 * maps["normal"] * _OPENGL)
        if name == "depth" and self.depth_format == "png":
            return np.rint(np.clip(maps["depth"] * self.depth_levels, 0, _MOST)).astype(np.uint16)
        if name == "depth":
            return maps["depth"].astype(np.float32)
        if not self.transparent:
            return to_8bit(maps["color"])
        alpha = maps["alpha"][..., None]
        return to_8bit(np.concatenate([maps["color"] / np.maximum(alpha, MIN_ALPHA), alpha], axis=-1))


def remove_frames_from(folder: Path, number: int) -> int:
    """Removes a path's frames `number`, `number` + 1, ... from `folder`, with their maps; returns how many there were.

    They are what an earlier, longer path left there, and would make the end of a video of the folder's files. Only
    files with a key are removed: nobody else's.
    """
    pictures = (folder / f"{i:05d}.png" for i in itertools.count(number))
    left = list(itertools.takewhile(lambda picture: key_of(picture) is not None, pictures))
    for picture in reversed(left):  # stopped half-way, it leaves no gap that would hide the rest
        for name in MAPS:
            for path in (folder / name / picture.name, (folder / name / picture.name).with_suffix(".tiff")):
                if key_of(path) is not None:
                    path.unlink()
        picture.unlink()
    return len(left)

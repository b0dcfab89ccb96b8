"""Photographs undistorted by us and by COLMAP: prints their differences per camera model (docs/lenses.md sums them up).

python -m tests.scene.lens.colmap_compared
"""

from dataclasses import dataclass

import numpy as np

from splat_cli.device import open_backend
from splat_cli.scene.colmap.model import Camera, lens_of
from splat_cli.scene.lens import undistort
from tests.scene.colmap_cameras import distorted_cameras

_TITLE = """pycolmap {version}, a test pattern of 320x240 pixels, one camera of each model with visible distortion:

| model | pinhole, pixels | maximum difference of fx, fy, cx, cy, pixels | mean of colours, of 255 | maximum |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Difference:
    """Differences between two pinhole cameras, in pixels, and between two pictures, in levels of 0 to 255."""

    size: tuple[int, int]
    same_size: bool
    parameters: float
    mean: float
    largest: int


def textured(lens):
    y, x = np.mgrid[: lens.height, : lens.width]
    waves = [np.sin(x / 9), np.sin(y / 11), np.sin((x + y) / 13)]
    return np.stack([127 + 100 * wave for wave in waves], axis=-1).astype(np.uint8)


def compared_with_colmap(camera: Camera) -> Difference:
    import pycolmap

    theirs = pycolmap.Camera(model=camera.model, width=camera.width, height=camera.height, params=list(camera.params))
    lens = lens_of(camera)
    bitmap = pycolmap.Bitmap.from_array(textured(lens))
    their_picture, flat = pycolmap.undistort_image(pycolmap.UndistortCameraOptions(), bitmap, theirs)
    ours = lens.pinhole
    picture, _ = undistort(open_backend("cpu"), lens, textured(lens))
    same_size = (ours.width, ours.height) == (flat.width, flat.height)
    off = np.abs(picture.astype(int) - their_picture.to_array()) if same_size else np.array([255])
    parameters = np.abs(np.array([ours.fx, ours.fy, ours.cx, ours.cy]) - flat.params).max()
    return Difference((ours.width, ours.height), same_size, float(parameters), float(off.mean()), int(off.max()))


def undistortion_section() -> str:
    """The section Undistortion of docs/lenses.md."""
    import pycolmap

    rows = []
    for camera in distorted_cameras(320, 240):
        found = compared_with_colmap(camera)
        size = f"{found.size[0]}x{found.size[1]}"
        rows.append(f"| {camera.model} | {size} | {found.parameters:.1e} | {found.mean:.1e} | {found.largest} |\n")
    return _TITLE.format(version=pycolmap.__version__) + "".join(rows)


if __name__ == "__main__":
    print(undistortion_section(), end="")

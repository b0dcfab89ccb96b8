"""Undistortion of photographs, by cuda_src/image/undistort.cu."""

import numpy as np

from splat_cli.device import Backend, ceil_div, check_arrays
from splat_cli.scene.lens.camera import Lens, Pinhole
from splat_cli.scene.lens.distortion import NUM_COEFFICIENTS

_BLOCK = (32, 8)

_LENS_DTYPE = np.dtype([
    ("matrix", np.float64, 4), ("coefficients", np.float64, NUM_COEFFICIENTS),
    ("width", np.int32), ("height", np.int32), ("family", np.int32), ("padding", np.int32),
])  # fmt: skip
_PINHOLE_DTYPE = np.dtype([("matrix", np.float64, 4), ("width", np.int32), ("height", np.int32)])


def undistort(
    backend: Backend, lens: Lens, photo: np.ndarray, keep: np.ndarray | None = None, pinhole: Pinhole | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The photograph as `pinhole` would have taken it, by default `lens.pinhole`.

    photo: uint8 [lens.height, lens.width, 3]. keep: uint8 [lens.height, lens.width], 0 for ignored pixels. Returns
    uint8 [H, W, 3] of the pinhole's size, and the mask uint8 [H, W]: 255 for used pixels, 0 for ignored pixels and
    those outside of the photograph. ShapeError for arrays of other shapes.
    """
    assert lens.distortion is not None
    height, width = str(lens.height), str(lens.width)
    check_arrays("undistort", photo=(photo, np.uint8, f"{height} {width} 3"))
    if keep is not None:
        check_arrays("undistort", keep=(keep, np.uint8, f"{height} {width}"))
    pinhole = pinhole or lens.pinhole
    picture = backend.xp.empty((pinhole.height, pinhole.width, 3), np.uint8)
    mask = backend.xp.empty((pinhole.height, pinhole.width), np.uint8)
    backend.kernel("image/undistort", "undistort")(
        (ceil_div(pinhole.width, _BLOCK[0]), ceil_div(pinhole.height, _BLOCK[1])),
        _BLOCK,
        _lens_row(lens),
        _pinhole_row(pinhole),
        backend.upload(photo),
        None if keep is None else backend.upload(keep),
        picture,
        mask,
    )
    return backend.download(picture), backend.download(mask)


def _lens_row(lens: Lens) -> np.ndarray:
    assert lens.distortion is not None
    row = np.zeros((), _LENS_DTYPE)
    row["matrix"] = lens.fx, lens.fy, lens.cx, lens.cy
    coefficients = lens.distortion.coefficients()
    row["coefficients"][: len(coefficients)] = coefficients
    row["width"], row["height"], row["family"] = lens.width, lens.height, lens.distortion.family
    return row


def _pinhole_row(pinhole: Pinhole) -> np.ndarray:
    row = np.zeros((), _PINHOLE_DTYPE)
    row["matrix"] = pinhole.fx, pinhole.fy, pinhole.cx, pinhole.cy
    row["width"], row["height"] = pinhole.width, pinhole.height
    return row

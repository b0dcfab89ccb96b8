"""Pinhole pictures of photographs that keep their lens: for stereo, which compares pinhole cameras."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from splat_cli.scene.images.downscale import nearest_mask, small_copies
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.lens.distortion import Equirectangular
from splat_cli.scene.view import View, evenly_spread

_NARROW = np.deg2rad(65)
"""Half the field of view up to which a single pinhole camera shows a photograph."""
_REACH = np.deg2rad(30)
"""Faces whose centre is farther outside the field of view are left out."""
CUBE = np.array([  # camera to face: rows are the face's right, down and forward
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]],  # ahead
    [[0, 0, -1], [0, 1, 0], [1, 0, 0]],  # right
    [[-1, 0, 0], [0, 1, 0], [0, 0, -1]],  # behind
    [[0, 0, 1], [0, 1, 0], [-1, 0, 0]],  # left
    [[1, 0, 0], [0, 0, 1], [0, -1, 0]],  # up
    [[1, 0, 0], [0, 0, -1], [0, 1, 0]],  # down
], np.float64)  # fmt: skip


def faces_of(view: View) -> list[View]:
    """Pinhole cameras that cover a view: one, or for wide lenses faces of a cube, as fine as the lens on its axis."""
    field = view.field_of_view
    if view.distortion is None or field.angle < _NARROW:
        return [view.pinhole]
    side, faces = 2 * round(view.fx), []
    for number, turn in enumerate(CUBE):
        if np.arccos(turn[2, 2]) < field.angle + _REACH:
            w2c = view.w2c.copy()
            w2c[:3] = turn @ w2c[:3]
            middle = side / 2
            faces.append(View(f"{view.name} {number}", None, side, side, middle, middle, middle, middle, w2c))
    return faces


def pinhole_pictures(photographs: ImageSet, most: int, longer_side: int) -> ImageSet:
    """The photographs, or, if some keep their lens, about `most` pinhole pictures of them, evenly spread.

    longer_side: upper limit of the width and height of pinhole pictures, in pixels.
    """
    views = photographs.views
    if all(view.distortion is None for view in views):
        return photographs

    def pictures_of(index: int) -> list[tuple[View, np.ndarray, np.ndarray]]:
        view = views[index]
        scale = min(1.0, longer_side / max(max(face.width, face.height) for face in faces_of(view)))
        small = small_copies(photographs, [index], round(scale * max(view.width, view.height)), nearest_mask)
        view, image, mask = small.views[0], small.images[0], small.masks[0]
        return [(face, *resample(view, face, image, mask)) for face in faces_of(view)]

    chosen = evenly_spread(range(len(views)), max(2, most // len(faces_of(views[0]))))
    with ThreadPoolExecutor() as pool:
        found = [entry for part in pool.map(pictures_of, chosen) for entry in part if entry[2].any()]
    return ImageSet([face for face, _, _ in found], [p for _, p, _ in found], [mask for _, _, mask in found], [])


def resample(view: View, face: View, photo: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Picture uint8 [H, W, 3] and mask uint8 [H, W] of the camera `face` at the same place, bilinear from `photo`."""
    far = 1e6 * face.rays().reshape(-1, 3)  # where a rolling shutter's change of position does not matter
    pixels, _, inside = view.project(far @ face.w2c[:3, :3] + view.center)
    x, y = np.where(inside[:, None], pixels, 0).T - 0.5
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    right, down = (x - left)[:, None], (y - top)[:, None]
    is_round = isinstance(view.distortion, Equirectangular)
    columns = [_inside(left + k, view.width, is_round) for k in (0, 1)]
    rows = [_inside(top + k, view.height, False) for k in (0, 1)]
    upper, lower = (photo[row, columns[0]] * (1 - right) + photo[row, columns[1]] * right for row in rows)
    picture = np.rint(upper * (1 - down) + lower * down).astype(np.uint8)
    keep = inside if mask is None else inside & (mask[rows[0], columns[0]] > 0)
    shape = face.height, face.width
    return picture.reshape(*shape, 3), (255 * keep).astype(np.uint8).reshape(shape)


def _inside(index: np.ndarray, size: int, is_round: bool) -> np.ndarray:
    return index % size if is_round else np.clip(index, 0, size - 1)

"""Colour correction of renders, fitted on one half of a photograph and evaluated on the other."""

from __future__ import annotations

import numpy as np

from splat_cli.render.pictures import to_8bit


def fit_color_on_left_half(
    render: np.ndarray, photograph: np.ndarray, mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Right halves of the colour-corrected render, of the photograph and of the mask, if any.

    The correction is an affine map fitted to the left halves by least squares, as embeddings are in NeRF in the Wild
    (Martin-Brualla et al. 2021, sec. 5). render: float32 [H, W, 3]; the result and the photograph are uint8. If the
    mask excludes the whole right half, the full picture is returned, unchanged.
    """
    half = render.shape[1] // 2
    kept = np.ones(render.shape[:2], bool) if mask is None else mask > 0
    if not kept[:, half:].any():
        return to_8bit(render), photograph, mask
    left = kept[:, :half]
    colors = np.column_stack([render[:, :half][left], np.ones(left.sum())]).astype(np.float64)
    difference = np.linalg.lstsq(colors, photograph[:, :half][left] / 255 - colors[:, :3], rcond=None)[0]  # [4, 3]
    right = render[:, half:]
    fitted = right + right @ difference[:3] + difference[3]
    return to_8bit(fitted), photograph[:, half:], None if mask is None else mask[:, half:]

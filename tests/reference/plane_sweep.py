"""Agreement of photographs about the depths of pixels, patch by patch, float64."""

import numpy as np

from splat_cli.scene.plane_sweep import intrinsics

RADIUS, BEST, MIN_DEVIATION = 2, 3, 2.0
OFFSETS = np.stack(np.meshgrid(*[np.arange(-RADIUS, RADIUS + 1)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)[:, ::-1]


def similarity(views, grays, neighbors, pixels, inverse_depths):
    """Scores [P, D]. grays: uint8 [H, W] of each view; the rest as in splat_cli/scene/plane_sweep.py."""
    scores = np.full((len(pixels), inverse_depths.shape[1]), -1.0)
    for p, (view, column, row) in enumerate(pixels):
        around = np.array([column, row]) + OFFSETS
        own = _normalized(grays[view][around[:, 1], around[:, 0]].astype(np.float64))
        if own is None:
            continue
        for d, inverse_depth in enumerate(inverse_depths[view].astype(np.float64)):
            patches = [_look(views[view], views[n], grays[n], around, inverse_depth) for n in neighbors[view]]
            units = [_normalized(patch) for patch in patches if patch is not None]
            if len(units) >= BEST:
                found = [own @ unit for unit in units if unit is not None]
                scores[p, d] = np.mean(sorted([*found, *[-1.0] * BEST], reverse=True)[:BEST])
    return scores


def _look(view, other, gray, around, inverse_depth):
    """The patch `around` (column, row) [N, 2] of `view`, as seen by `other`; None if it is partly outside."""
    rays = np.c_[around + 0.5, np.ones(len(around))] @ np.linalg.inv(intrinsics(view)).T
    relative = other.w2c @ np.linalg.inv(view.w2c)
    seen = (rays @ relative[:3, :3].T + inverse_depth * relative[:3, 3]) @ intrinsics(other).T
    if (seen[:, 2] <= 0).any():
        return None
    x, y = (seen[:, :2] / seen[:, 2:] - 0.5).T
    if not ((x >= 0) & (y >= 0) & (x < other.width - 1) & (y < other.height - 1)).all():
        return None
    x0, y0 = x.astype(int), y.astype(int)
    dx, dy, values = x - x0, y - y0, gray.astype(np.float64)
    upper = values[y0, x0] * (1 - dx) + values[y0, x0 + 1] * dx
    lower = values[y0 + 1, x0] * (1 - dx) + values[y0 + 1, x0 + 1] * dx
    return upper * (1 - dy) + lower * dy


def _normalized(patch):
    """The patch with mean 0 and length 1; None if its contrast is too small."""
    patch = patch - patch.mean()
    deviation = np.sqrt((patch**2).mean())
    return patch / np.linalg.norm(patch) if deviation > MIN_DEVIATION else None


def peaks(scores: np.ndarray, min_score: float, margin: float) -> np.ndarray:
    """Position of the peak in each row of scores [P, D], interpolated by a parabola; 0 without a peak."""
    scores = scores.astype(np.float64)
    rows, depths = np.arange(len(scores)), np.arange(scores.shape[1])
    best = scores.argmax(axis=1)
    left, top, right = (scores[rows, np.clip(best + side, 0, len(depths) - 1)] for side in (-1, 0, 1))
    rival = np.where(np.abs(depths - best[:, None]) > 3, scores, -1).max(axis=1)
    inside = (best > 0) & (best < len(depths) - 1) & (left > -1) & (right > -1)
    shift = 0.5 * (left - right) / np.minimum(left - 2 * top + right, -1e-6)
    is_peak = inside & (top >= min_score) & (top - rival >= margin)
    return np.where(is_peak, best + np.clip(shift, -0.5, 0.5), 0)

"""How well the cameras of a scene cover it: views per point, gaps around it, and places for more photographs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.scene.colmap import find_model, has_model, visible_points
from splat_cli.scene.view import Scene, View, evenly_spread

_NUM_POINTS, _NUM_VIEWS, _NUM_CANDIDATES = 1000, 200, 400  # for places of more photographs
_NEW = 10.0  # degrees from a point's nearest view: a new direction
_INWARD = 0.8  # fraction of the cameras that look at the middle
_FACING = 0.7  # cosine of the angle to the middle
_MAX_APART = 150.0  # degrees between two cameras with a new one between them
_NUM_NEIGHBORS = 6


@dataclass(frozen=True, eq=False)
class Place:
    """A camera that would help: position and viewing direction float64 [3], halfway between two views.

    gain: what it would add, relative to the first place.
    """

    center: np.ndarray
    direction: np.ndarray
    between: tuple[str, str]
    gain: float


@dataclass(frozen=True)
class Gap:
    """A range of directions around the vertical without a camera: degrees, and the views on both sides.

    is_ring: the cameras look at the middle of the scene; otherwise they look outward.
    """

    degrees: float
    first: str
    second: str
    is_ring: bool


def up_direction(views: Sequence[View]) -> np.ndarray:
    """Mean up direction of the cameras, float64 [3]."""
    up = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    return up / max(float(np.linalg.norm(up)), 1e-9)


def focus(views: Sequence[View]) -> np.ndarray:
    """The point nearest to the optical axes of all cameras (least squares), float64 [3]."""
    centers, ways = _poses(views)
    across = np.eye(3) - ways[:, :, None] * ways[:, None, :]
    return np.linalg.lstsq(across.sum(axis=0), (across @ centers[:, :, None]).sum(axis=0)[:, 0], rcond=None)[0]


def gaps(views: Sequence[View]) -> list[Gap]:
    """Gaps around the vertical, largest first: of camera positions around the middle, or of viewing directions."""
    centers, ways = _poses(views)
    outward = centers - focus(views)
    is_ring = _looks_inward(outward, ways)
    up = up_direction(views)
    right = np.linalg.svd(up[None])[2][1]
    around = outward if is_ring else ways
    angles = np.degrees(np.arctan2(around @ np.cross(up, right), around @ right))
    order = np.argsort(angles, kind="stable")
    steps = np.diff(angles[order], append=angles[order[0]] + 360)
    names = [views[i].name for i in order]
    return [
        Gap(float(steps[at]), names[at], names[(at + 1) % len(names)], is_ring)
        for at in np.argsort(-steps, kind="stable")
    ]


def _looks_inward(outward: np.ndarray, ways: np.ndarray) -> bool:
    """Whether most cameras, at positions `outward` [N, 3] from the middle, look at it."""
    facing = -(outward * ways).sum(axis=1) / np.maximum(np.linalg.norm(outward, axis=1), 1e-9)
    return bool(np.mean(facing > _FACING) > _INWARD)


def _poses(views: Sequence[View]) -> tuple[np.ndarray, np.ndarray]:
    """Positions and viewing directions, float64 [N, 3] each."""
    return np.array([view.center for view in views]), np.array([view.w2c[2, :3] for view in views])


def shared_points(scene: Scene) -> np.ndarray | None:
    """Number of points that two photographs share, int64 [N, N] in the order of the views; None without tracks.

    Some programs write tracks of one photograph each; they count as none.
    """
    visible = visible_points(find_model(scene.root)) if has_model(scene.root) else {}
    names = [view.name for view in scene.views]
    lists = [visible.get(name, np.zeros(0, np.uint64)) for name in names]
    if not sum(map(len, lists)):
        return None
    ids, column = np.unique(np.concatenate(lists), return_inverse=True)
    row = np.repeat(np.arange(len(names)), list(map(len, lists)))
    some = ceil_div(len(ids), 1 << 15)
    shows = np.zeros((len(names), ceil_div(len(ids), some)), np.float32)
    kept = column % some == 0
    shows[row[kept], column[kept] // some] = 1
    shared = np.rint(some * (shows @ shows.T)).astype(int)
    return shared if np.triu(shared, 1).max() > 1 else None


def largest_chain(matches: Mapping[tuple[int, int], np.ndarray], least: int) -> int:
    """Maximum number of photographs that can be placed one after another by their matches, without any geometry.

    matches: pair of photographs -> matching features [n, 2]. A photograph can be placed if it shows at least `least`
    points that two placed ones show, as in incremental structure from motion.
    """
    sizes = {pair: len(rows) for pair, rows in matches.items() if len(rows) >= least}
    if not sizes:
        return 0
    point, photo = _shown_points(matches)
    chained = np.zeros(photo.max() + 1, bool)
    largest = 0
    for pair in sorted(sizes, key=lambda pair: (-sizes[pair], pair)):
        if not chained[list(pair)].any():
            placed = _placed_from(pair, point, photo, least)
            largest = max(largest, int(placed.sum()))
            chained |= placed
    return largest


def _shown_points(matches: Mapping[tuple[int, int], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Point and photograph of each observation. Features that match, also by way of others, show the same point."""
    stride = 1 + max(int(rows.max(initial=0)) for rows in matches.values())
    features = np.concatenate([np.array(pair) * stride + rows for pair, rows in matches.items()])
    found, ends = np.unique(features, return_inverse=True)
    ends = ends.reshape(features.shape)
    point, before = np.arange(len(found)), np.empty(0, int)
    while not np.array_equal(point, before):
        before = point.copy()
        np.minimum.at(point, ends, before[ends].min(axis=1, keepdims=True))
        point = point[point]  # long tracks take few rounds
    point, photo = np.unique(np.stack([np.unique(point, return_inverse=True)[1], found // stride]), axis=1)
    return point, photo


def _placed_from(pair: tuple[int, int], point: np.ndarray, photo: np.ndarray, least: int) -> np.ndarray:
    """Mask of the photographs that can be placed after the two of `pair`; see `largest_chain`."""
    placed, num_seen = np.zeros(photo.max() + 1, bool), np.zeros(point.max() + 1, int)
    following = list(pair)
    while following:
        placed[following] = True
        for number in following:
            num_seen[point[photo == number]] += 1
        known = np.bincount(photo[(num_seen >= 2)[point]], minlength=len(placed)) * ~placed
        following = [int(known.argmax())] if known.max() >= least else []
    return placed


def helpful_places(scene: Scene, num: int) -> list[Place]:
    """Up to `num` places for more photographs, best first: where they show most points from new directions."""
    views = evenly_spread(scene.views, _NUM_VIEWS)
    points = scene.points[:: ceil_div(len(scene.points), _NUM_POINTS) or 1].astype(np.float64)
    candidates = _candidates(views)
    if not len(points) or not candidates:
        return []
    shown = np.array([view.project(points)[2] for view in views])
    rays = np.array([_rays(view.center, points) for view in views]) * shown[:, :, None]
    visible = np.array([_shows(one, views[0], points) for one in candidates])
    directions = np.array([_rays(one.center, points) for one in candidates])
    nearest = np.array([np.einsum("npd,pd->np", rays, one).max(axis=0) for one in directions])  # cosine [C, P]
    places: list[Place] = []
    most = 0.0
    while len(places) < num:
        angles = np.degrees(np.arccos(np.clip(nearest, -1, 1)))
        gains = (np.clip(angles - _NEW, 0, None) * visible).sum(axis=1)
        best = int(gains.argmax())
        if gains[best] <= 0:
            break
        most = most or float(gains[best])
        places.append(dataclasses.replace(candidates[best], gain=float(gains[best]) / most))
        nearest = np.maximum(nearest, (directions * directions[best]).sum(axis=2) * visible[best])
    return places


def _candidates(views: Sequence[View]) -> list[Place]:
    """Cameras halfway between two: on an arc around the middle if all look there, otherwise between neighbours."""
    centers, ways = _poses(views)
    middle = focus(views)
    outward = centers - middle
    if not _looks_inward(outward, ways):
        apart = np.linalg.norm(centers[:, None] - centers[None], axis=2)
        near = np.argsort(apart, axis=1, kind="stable")[:, 1 : 1 + _NUM_NEIGHBORS]
        pairs = sorted({(min(i, int(j)), max(i, int(j))) for i, row in enumerate(near) for j in row})
        return [
            Place((centers[i] + centers[j]) / 2, _unit(ways[i] + ways[j]), (views[i].name, views[j].name), 0.0)
            for i, j in evenly_spread(pairs, _NUM_CANDIDATES)
        ]
    radii = np.linalg.norm(outward, axis=1)
    units = outward / np.maximum(radii, 1e-9)[:, None]
    first, second = np.triu_indices(len(views), 1)
    near = (units[first] * units[second]).sum(axis=1) > np.cos(np.radians(_MAX_APART))
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(near))[:_NUM_CANDIDATES]
    found = []
    for i, j in zip(first[chosen], second[chosen], strict=True):
        way = _unit(units[i] + units[j])
        found.append(Place(middle + way * (radii[i] + radii[j]) / 2, -way, (views[i].name, views[j].name), 0.0))
    return found


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def _rays(center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Directions of length 1 from points [P, 3] to a camera."""
    rays = center - points
    return rays / np.maximum(np.linalg.norm(rays, axis=1, keepdims=True), 1e-9)


def _shows(place: Place, lens: View, points: np.ndarray) -> np.ndarray:
    """Mask [P]: points in a cone as wide as the picture of the camera `lens`."""
    half = np.arctan(min(lens.width / lens.fx, lens.height / lens.fy) / 2)
    return -_rays(place.center, points) @ place.direction > np.cos(half)

"""Order in which training shows photographs, and which of them each of several ranks shows.

Slot b of each batch shows views v with v % batch = b only. A rank has the same slots in all batches, and so needs a
part of the photographs only, while the order is the same for any number of ranks.

Views of a batch show about as much of the scene as one another, where that is known: ranks wait for the slowest view.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from splat_cli.ranks.share import Share
from splat_cli.scene.view import View

_POINTS = 4096  # of which `visible_points` counts those that a view shows
_GROUPS, _GROUP = 16, 8  # groups of views that show alike many points: at most; views of a slot in each, at least


def visible_points(views: Sequence[View], points: np.ndarray) -> np.ndarray:
    """How many of some of the points [P, 3] each view shows, int64 [num_views]: nearly in proportion to its pairs of
    splats and tiles later on."""
    some = points[:: max(1, len(points) // _POINTS)].astype(np.float64)
    return np.array([np.count_nonzero(view.project(some)[2]) for view in views])


def view_order(
    num_views: int, steps: int, seed: int, batch: int = 1, num_points: np.ndarray | None = None
) -> np.ndarray:
    """View of each step, int32 [steps]: random permutations of all views, or of those of each slot of a batch.

    num_points: from `visible_points`; views of a batch then show alike many, if slots have two groups of views or more.
    The order of a shorter run is a prefix of that of a longer one, so that runs can be extended.
    """
    random = np.random.default_rng((seed, 1))  # separate from the generator of density control
    num_batches = -(-steps // batch)
    if num_points is not None and num_views // batch >= 2 * _GROUP:
        numbers = range(-(-steps // num_views))
        return np.concatenate([_balanced_round(num_points, batch, number, random) for number in numbers])[:steps]
    num_rounds = -(-num_batches // max(num_views // batch, 1))  # of the slots with the fewest views
    rounds = np.concatenate([random.permutation(num_views) for _ in range(num_rounds)])
    order = np.empty(num_batches * batch, np.int32)
    for slot in range(batch):
        order[slot::batch] = rounds[_class_of(rounds, num_views, batch) == slot % min(batch, num_views)][:num_batches]
    return order[:steps]


def _balanced_round(num_points: np.ndarray, batch: int, number: int, random: np.random.Generator) -> np.ndarray:
    """Batches with all views, int32: those of a batch are random ones of the same group, by order of `num_points`.

    Slots with a view fewer show one of them twice, another one in each round.
    """
    num_batches = -(-len(num_points) // batch)
    groups = np.array_split(np.arange(num_batches), min(_GROUPS, num_batches // _GROUP))
    found = np.empty((num_batches, batch), np.int32)
    for slot in range(batch):
        views = np.arange(slot, len(num_points), batch)
        views = views[np.argsort(num_points[views], kind="stable")]
        if len(views) < num_batches:
            twice = number % len(views)
            views = np.insert(views, twice, views[twice])
        found[:, slot] = np.concatenate([random.permutation(views[group]) for group in groups])
    return random.permutation(found).reshape(-1)


def in_slots(permutation: np.ndarray, batch: int) -> np.ndarray:
    """A permutation of all views, rearranged so that the j-th one is of slot j % batch."""
    order, slots = np.empty_like(permutation), permutation % batch
    for slot in range(batch):
        order[slot::batch] = permutation[slots == slot]
    return order


def own_views(num_views: int, batch: int, share: Share) -> list[int]:
    """Views that a rank shows, ascending: those of slots b with b % num_ranks = rank; all of them for one rank."""
    classes = np.arange(share.rank, batch, share.num_ranks) % min(batch, num_views)
    views = np.arange(num_views)
    return [int(view) for view in views[np.isin(_class_of(views, num_views, batch), classes)]]


def _class_of(views: np.ndarray, num_views: int, batch: int) -> np.ndarray:
    """Slot of each view; with fewer views than slots, further slots repeat the first ones."""
    return views % min(batch, num_views)

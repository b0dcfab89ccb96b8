"""Order in which training shows photographs, and their distribution over ranks.

Slot b of each batch shows only views v with v % batch = b. A rank has the same slots in all batches, so it needs only a
part of the photographs, while the order is the same for any number of ranks.
"""

from __future__ import annotations

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.ranks.share import Share


def view_order(num_views: int, steps: int, seed: int, batch: int = 1) -> np.ndarray:
    """View of each step, int32 [steps]: random permutations of all views, or of the views of each slot of a batch.

    The order of a shorter run is a prefix of the order of a longer run, so runs can be extended.
    """
    rng = np.random.default_rng((seed, 1))  # separate from the generator of density control
    num_batches = ceil_div(steps, batch)
    num_rounds = ceil_div(num_batches, max(num_views // batch, 1))  # enough for the slots with the fewest views
    rounds = np.concatenate([rng.permutation(num_views) for _ in range(num_rounds)])
    order = np.empty(num_batches * batch, np.int32)
    for slot in range(batch):
        order[slot::batch] = rounds[_class_of(rounds, num_views, batch) == slot % min(batch, num_views)][:num_batches]
    return order[:steps]


def in_slots(permutation: np.ndarray, batch: int) -> np.ndarray:
    """A permutation of all views in which the j-th one belongs to slot j % batch."""
    order, slots = np.empty_like(permutation), permutation % batch
    for slot in range(batch):
        order[slot::batch] = permutation[slots == slot]
    return order


def own_views(num_views: int, batch: int, share: Share) -> list[int]:
    """Views that a rank shows, ascending: views of slots b with b % num_ranks = rank. A single rank shows all."""
    classes = np.arange(share.rank, batch, share.num_ranks) % min(batch, num_views)
    views = np.arange(num_views)
    return [int(view) for view in views[np.isin(_class_of(views, num_views, batch), classes)]]


def _class_of(views: np.ndarray, num_views: int, batch: int) -> np.ndarray:
    """Slot of each view; with fewer views than slots, further slots repeat the first ones."""
    return views % min(batch, num_views)

"""Order of photographs: all equally often, and each rank only its own."""

import itertools

import numpy as np
import pytest

from splat_cli.data.training_images import in_slots, own_views, view_order
from splat_cli.ranks.protocol import WHOLE, Share


def test_order_without_batches_is_permutations_of_all_views():
    order = view_order(10, 35, seed=3)
    assert len(order) == 35
    for first in (0, 10, 20):
        assert sorted(order[first : first + 10]) == list(range(10))
    np.testing.assert_array_equal(view_order(10, 50, seed=3)[:35], order)


@pytest.mark.parametrize(("num_views", "batch"), [(12, 4), (13, 4), (4, 4), (3, 4), (1, 2)])
def test_slots_show_their_views_in_any_run(num_views, batch):
    order = view_order(num_views, 20 * batch, seed=0, batch=batch)
    np.testing.assert_array_equal(view_order(num_views, 9 * batch, seed=0, batch=batch), order[: 9 * batch])
    counts = np.bincount(order, minlength=num_views)
    assert counts.min() > 0
    for slot in range(batch):
        shown = order[slot::batch]
        assert set(shown % batch) == {slot % min(batch, num_views)}
        assert np.ptp(counts[np.unique(shown)]) <= 1 + (num_views < batch) * 20


@pytest.mark.parametrize(("num_views", "batch"), [(12, 4), (13, 4), (3, 4), (255, 8)])
@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_show_their_own_views_only(num_views, batch, num_ranks):
    order = view_order(num_views, 50 * batch, seed=0, batch=batch)
    scored = in_slots(np.random.default_rng(0).permutation(num_views), batch)
    assert sorted(scored) == list(range(num_views))
    shares = [Share(rank, num_ranks) for rank in range(num_ranks)]
    parts = [own_views(num_views, batch, share) for share in shares]
    for share, part in zip(shares, parts, strict=True):
        assert set(order[share.rank :: num_ranks]) == set(part)
        assert set(scored[share.rank :: num_ranks]) <= set(part)
        assert part == sorted(part)
    if num_views >= batch:
        assert sorted(itertools.chain(*parts)) == list(range(num_views))


def test_one_rank_shows_all_views():
    assert own_views(5, 2, WHOLE) == list(range(5))

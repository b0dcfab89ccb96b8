"""Messages between two ranks that are too small grow on both ranks, without changing a bit."""

import numpy as np

from splat_cli.ranks.protocol import RANK_BLOCK
from splat_cli.train.multi_gpu import sharded_views
from tests.ranks.threads import trainers_of_two_ranks


def _train(after=lambda trainers: None):
    """Splats after 40 steps, and rows of both ranks' messages after 16 and 40 steps. after: called after 16 steps."""
    rows = []
    with trainers_of_two_ranks() as trainers:
        for step in (16, 40):
            trainers[0].run_until(step)
            trainers[0].copied_planes()  # waits for the other rank
            rows.append([trainer.sharding.views.exchange.rows for trainer in trainers])
            if step == 16:
                after(trainers)
        leading = trainers[0]
        return leading.splats.params.copy(), rows


def test_overflowed_messages_grow_on_both_ranks_with_the_same_bits(monkeypatch):
    def shrink(trainers):
        for trainer in trainers:
            views = trainer.sharding.views
            views._rows_per_splat = 0.01
            views.allocate()

    monkeypatch.setattr(sharded_views, "FIRST_ROWS", 1.0)
    expected, rows = _train()
    assert rows[0] == [3 * RANK_BLOCK] * 2  # 3 RANK_BLOCK splats and room for more
    monkeypatch.setattr(sharded_views, "FIRST_ROWS", 0.01)
    monkeypatch.setattr(sharded_views, "ROWS_HEADROOM", 1.0)  # later views need more rows
    got, rows = _train(shrink)
    assert all(100 < of_rank < 3 * RANK_BLOCK for of_both in rows for of_rank in of_both), rows
    assert all(of_both[0] == of_both[1] for of_both in rows)
    np.testing.assert_array_equal(got, expected)

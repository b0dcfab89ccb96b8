"""scripts/bench/rank_passes.py."""

import numpy as np
from rank_passes import stage_times
from rank_recorder import Records

STAGES = [
    "project others",
    "send projections",
    "project own",
    "receive projections",
    "send gradients 0",
    "receive gradients",
]


def test_an_exchange_is_divided_into_waiting_and_transfer() -> None:
    """Rank 1 starts to send projections 3 us after rank 0 and gradients 1 us before it; both end together."""
    marks = np.array([[0, 1, 1, 3, 6, 6, 9], [0, 4, 4, 5, 5, 5, 9]]) * 1e-6
    records = [Records(STAGES, {5: ([0.0] * 7, list(one))}) for one in marks]
    first, second = stage_times(records, 0)
    names = [name + end for name in ("receive projections", "receive gradients") for end in (": wait", "")]
    found = [[float(row[name][0].round(6)) for name in names] for row in (first, second)]
    assert found == [[1, 2, 0, 3], [0, 0, 1, 3]]

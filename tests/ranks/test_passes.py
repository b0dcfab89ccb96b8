"""scripts/rank_passes.py."""

import numpy as np
from rank_passes import stage_times
from rank_recorder import Records

NAMES = "exchange projections: wait", "exchange projections", "batch"


def test_an_exchange_is_divided_into_waiting_and_transfer() -> None:
    """Rank 1 begins the first exchange 2 us after rank 0; both end it together."""
    marks = np.array([[0, 1, 6, 7, 8, 9], [0, 3, 6, 7, 8, 9]]) * 1e-6
    records = [Records(batches={5: (list(one[:1]) * 6, list(one))}) for one in marks]
    first, second = stage_times(records, 0)
    found = [[row[name].round(6).tolist() for name in NAMES] for row in (first, second)]
    assert found == [[[2], [3], [9]], [[0], [3], [9]]]

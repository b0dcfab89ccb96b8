"""scripts/rank_passes.py."""

import numpy as np
from rank_passes import stage_times
from rank_recorder import Records

STAGES = ["project others", "send projections", "project own", "receive projections", "render 0", "send gradients 0"]


def test_an_exchange_is_divided_into_waiting_and_transfer() -> None:
    """Rank 1 begins to send projections 3 us after rank 0, and gradients 1 us before; both end together."""
    marks = np.array([[0, 1, 1, 3, 6, 8, 9], [0, 4, 4, 5, 6, 7, 9]]) * 1e-6
    records = [Records(STAGES, {5: ([0.0] * 7, list(one))}) for one in marks]
    first, second = stage_times(records, 0)
    names = [name + end for name in ("receive projections", "send gradients 0") for end in (": wait", "")]
    found = [[float(row[name][0].round(6)) for name in names] for row in (first, second)]
    assert found == [[1, 2, 0, 1], [0, 1, 1, 1]]

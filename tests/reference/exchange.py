"""What a rank sends of a view: its visible splats, and the index by which their rows are found (visible.cuh)."""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

BLOCK, GROUP = 4096, 32  # splats


@dataclass(frozen=True)
class Sent:
    """begins [blocks + 1]: first row of each block, then the number of rows. masks, group_begins [groups].

    splats [rows, 10]: conic and opacity, rgb and depth, mean2d.
    """

    begins: Array
    masks: Array
    group_begins: Array
    splats: Array


def sent_splats(depths: Array, means2d: Array, conics: Array, colors: Array) -> Sent:
    """Of a share's splats [columns] those with a depth over 0, in their order; conics, colors [columns, 4]."""
    seen = depths > 0
    per_group = seen.reshape(-1, GROUP).sum(axis=1)
    before = np.concatenate([[0], np.cumsum(per_group)])  # rows before each group
    begins = before[:: BLOCK // GROUP]
    return Sent(
        begins=begins,
        masks=(seen.reshape(-1, GROUP) * 2 ** np.arange(GROUP, dtype=np.uint64)).sum(axis=1),
        group_begins=before[:-1] - np.repeat(begins[:-1], BLOCK // GROUP),
        splats=np.column_stack([conics, colors[:, :3], depths, means2d])[seen],
    )

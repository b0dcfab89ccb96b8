"""A kernel file of one line, with headers, and the value that it writes."""

import numpy as np

from splat_cli.device import open_backend

KERNEL = '#include "value.cuh"\nextern "C" __global__ void k(int* x) { x[0] = VALUE + EXTRA; }\n'


def value(folder, **defines):
    x = np.zeros(1, np.int32)
    open_backend("cpu", sources=folder).kernel("k", "k", **({"EXTRA": 0} | defines))((1,), (1,), x)
    return int(x[0])

"""Regression losses of a network: host code for cuda_src/field/regression.cu."""

from __future__ import annotations

from splat_cli.device import DeviceArray, ceil_div, check_arrays
from splat_cli.field.network import WARPS, Network

L2, RELATIVE_L2, HUBER = 0, 1, 2


def regression_loss(
    network: Network,
    targets: DeviceArray,
    num_rows: DeviceArray,
    loss: DeviceArray,
    kind: int = L2,
    delta: float = 0.05,
) -> None:
    """Add the mean loss over rows and channels to `loss` float32 [1], and write the network's d_outputs.

    targets: planes float32 [channels, rows]. kind: L2; RELATIVE_L2 (Mueller et al. 2022, sec. 5.4: divided by the
    squared output, treated as constant); or HUBER, linear beyond `delta`.
    """
    channels = network.widths[-1]
    check_arrays("regression_loss", targets=(targets, "float32", f"{channels} {network.rows}"))
    network.backend.kernel("field/regression", "regression_loss")(
        (ceil_div(network.rows, 32 * WARPS), channels),
        (32, WARPS),
        network.outputs,
        targets,
        network.rows,
        num_rows,
        kind,
        float(delta),
        loss,
        network.d_outputs,
    )

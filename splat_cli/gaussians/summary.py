"""Summary of a set of splats."""

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.attributes import opacities

_PERCENTILES = (1, 25, 50, 75, 99)


def summarize_splats(splats: SplatArrays) -> dict[str, str]:
    """Label -> text: count, SH degree, extent, distribution of opacity and size."""
    rows = {"splats": f"{len(splats):,}", "SH degree": str(splats.sh_degree)}
    if splats.num_dropped:
        rows["left out"] = f"{splats.num_dropped:,} splats that are not finite"
    if splats.dropped_sh_degree:
        rows["SH degree"] += f", of {splats.dropped_sh_degree} in the file: the higher ones are dropped on reading"
    if any(splats.origin):
        rows["origin"] = ", ".join(f"{value:.15g}" for value in splats.origin) + " subtracted from all coordinates"
    if len(splats) == 0:
        return rows
    low, high = np.percentile(splats.means, (1, 99), axis=0)
    with np.errstate(over="ignore"):
        sizes = np.exp(splats.log_scales.astype(np.float64))
    columns = " ".join(f"{percentile:>8}%" for percentile in _PERCENTILES)
    return rows | {
        "extent": " x ".join(f"{side:.4g}" for side in high - low) + " world units (98 % of the splats, each axis)",
        "percentiles": columns,
        "opacity": _distribution(opacities(splats)),
        "largest axis": _distribution(sizes.max(axis=1)) + "  world units",
        "smallest axis": _distribution(sizes.min(axis=1)) + "  world units",
    }


def _distribution(values: np.ndarray) -> str:
    return " ".join(f"{value:>9.4g}" for value in np.percentile(values, _PERCENTILES, method="nearest"))

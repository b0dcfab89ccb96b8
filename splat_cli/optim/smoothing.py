"""The 3D smoothing filter of each splat: the host side of cuda_src/filter_3d.cu."""

from __future__ import annotations

from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable

THREADS = 256


def update_filters(splats: Splats, cameras: CameraTable) -> None:
    """Set splats.filters to what the views of `cameras` sample at each splat (Mip-Splatting, sec. 5.1)."""
    splats.backend.kernel("filter_3d", "filter_3d")(
        (-(-splats.capacity // THREADS),), (THREADS,),
        cameras.array, len(cameras.views), splats.params, splats.capacity, splats.num, splats.filters,
    )  # fmt: skip

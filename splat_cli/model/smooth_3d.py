"""3D smoothing filter of each splat: host side of cuda_src/optim/smooth_3d.cu."""

from __future__ import annotations

from splat_cli.device.launch import ceil_div
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable

THREADS = 256


def update_smooth_3d_sigmas(splats: Splats, cameras: CameraTable, variance: float) -> None:
    """Set splats.smooth_3d_sigmas by the sampling rate of `cameras` at each splat (Mip-Splatting, sec. 5.1).

    variance: of the filter, in squared pixel widths at the splat in the view with the highest sampling rate.
    """
    splats.backend.kernel("optim/smooth_3d", "smooth_3d_sigmas")(
        (ceil_div(splats.capacity, THREADS),), (THREADS,),
        cameras.array, len(cameras.views), splats.params, splats.capacity, splats.num,
        variance**0.5, splats.smooth_3d_sigmas,
    )  # fmt: skip

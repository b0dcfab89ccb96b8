"""3D smoothing filter of each splat: host side of cuda_src/optim/smooth_3d.cu."""

from __future__ import annotations

from splat_cli.device.launch import launch
from splat_cli.gaussians.splats import Splats
from splat_cli.render.camera import CameraTable


def update_smooth_3d_sigmas(splats: Splats, cameras: CameraTable, variance: float) -> None:
    """Set splats.smooth_3d_sigmas from the sampling rate of `cameras` at each splat (Mip-Splatting, sec. 5.1).

    variance: filter variance, in squared pixel widths at the splat in the view with the highest sampling rate.
    """
    views, params = (cameras.array, len(cameras.views)), (splats.params, splats.capacity, splats.num)
    arguments = *views, *params, variance**0.5, splats.smooth_3d_sigmas
    launch(splats.backend, "optim/smooth_3d", "smooth_3d_sigmas", splats.capacity, *arguments, **cameras.lens_defines)

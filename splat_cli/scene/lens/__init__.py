"""Lenses, and undistortion to pinhole cameras."""

from splat_cli.scene.lens.camera import IMPOSSIBLE, MAX_SIDE, Lens, Pinhole, spherical_lens
from splat_cli.scene.lens.rolling_shutter import RollingShutter
from splat_cli.scene.lens.undistort import undistort

__all__ = ["IMPOSSIBLE", "MAX_SIDE", "Lens", "Pinhole", "RollingShutter", "spherical_lens", "undistort"]

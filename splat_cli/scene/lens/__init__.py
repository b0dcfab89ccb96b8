"""Lenses: COLMAP's camera models, and undistortion to pinhole cameras."""

from splat_cli.scene.lens.camera import IMPOSSIBLE, MAX_SIDE, Lens, Pinhole
from splat_cli.scene.lens.models import lens_of, spherical_lens
from splat_cli.scene.lens.rolling_shutter import RollingShutter
from splat_cli.scene.lens.undistort import undistort

__all__ = ["IMPOSSIBLE", "MAX_SIDE", "Lens", "Pinhole", "RollingShutter", "lens_of", "spherical_lens", "undistort"]

"""What `splat export` is told to change, in the order in which it happens."""

from dataclasses import dataclass

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.choose import in_morton_order, keep_strongest
from splat_cli.gaussians.edit import drop_transparent, limit_sh_degree
from splat_cli.gaussians.move import rotated, rotation_about_axes, scaled, translated
from splat_cli.scene.crop import Crop
from splat_cli.scene.poses import Similarity


@dataclass(frozen=True)
class Edits:
    """Changes to splats; None and False leave alone.

    First splats are left out, where the file has them; then the rest is scaled, rotated and translated, about the
    origin; last come the limits and the order.
    """

    crop: Crop | None = None
    min_opacity: float | None = None
    scale: float | None = None
    rotate: tuple[float, float, float] | None = None
    """Degrees about x, then y, then z."""
    translate: tuple[float, float, float] | None = None
    max_count: int | None = None
    sh_degree: int | None = None
    morton: bool = False

    def similarity(self) -> Similarity:
        """What scaling, turning and moving do to the world."""
        rotation = np.eye(3) if self.rotate is None else rotation_about_axes(self.rotate)
        return Similarity(self.scale or 1.0, rotation, np.array(self.translate or (0.0, 0.0, 0.0)))

    def apply(self, splats: SplatArrays) -> SplatArrays:
        """The splats after all changes."""
        if self.crop is not None:
            splats = splats.select(self.crop.holds(splats.means))
        if self.min_opacity is not None:
            splats = drop_transparent(splats, self.min_opacity)
        if self.scale is not None:
            splats = scaled(splats, self.scale)
        if self.rotate is not None:
            splats = rotated(splats, rotation_about_axes(self.rotate))
        if self.translate is not None:
            splats = translated(splats, self.translate)
        if self.max_count is not None:
            splats = keep_strongest(splats, self.max_count)
        if self.sh_degree is not None:
            splats = limit_sh_degree(splats, self.sh_degree)
        return in_morton_order(splats) if self.morton else splats

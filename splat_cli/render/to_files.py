"""Rendering many views into picture files."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.render.pictures import png_names, save_png, to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View


def render_to_files(
    backend: Backend,
    splats: Splats,
    views: Sequence[View],
    folder: Path,
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    antialias: bool = False,
    on_picture: Callable[[np.ndarray], object] = lambda picture: None,
) -> list[Path]:
    """Writes a PNG for each view, named after the view, into `folder`; returns their paths.

    on_picture: called with every picture, uint8 [H, W, 3], after it is written.
    """
    renderer = ViewRenderer(backend, splats, views, antialias)
    paths = [folder / name for name in png_names([view.name for view in views])]
    for index, path in enumerate(paths):
        picture = to_8bit(renderer.render(index, background))
        save_png(path, picture)
        on_picture(picture)
    return paths

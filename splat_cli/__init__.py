"""3D Gaussian Splatting: photographs in, splats out.

    import splat_cli as splat

    result = splat.train_scene("scenes/garden", steps=7000, eval=True)
    print(result.evaluate())
    result.save("garden.spz")

Every name in `__all__` is imported when it is first used, so that `import splat_cli` itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from splat_cli.api.result import RenderedImage, Result, Scores, TrainedScene
    from splat_cli.api.scenes import open_run, read_scene, train_scene
    from splat_cli.api.splats import convert, evaluate, render_view
    from splat_cli.config import TrainConfig
    from splat_cli.config.presets import load_config
    from splat_cli.errors import SplatError
    from splat_cli.gaussians.arrays import SplatArrays
    from splat_cli.gaussians.formats import read_splats, write_splats
    from splat_cli.sample import make_sample_city, make_sample_scene
    from splat_cli.scene.view import Scene, View
    from splat_cli.terminal.console import Progress

__version__ = "0.1.0"

__all__ = [
    "Progress", "RenderedImage", "Result", "Scene", "Scores", "SplatArrays", "SplatError", "TrainConfig",
    "TrainedScene", "View", "convert", "evaluate", "load_config", "make_sample_city", "make_sample_scene",
    "open_run", "read_scene", "read_splats", "render_view", "train_scene", "write_splats",
]  # fmt: skip

_MODULES = {
    "api.scenes": ("open_run", "read_scene", "train_scene"),
    "config": ("TrainConfig",),
    "terminal.console": ("Progress",),
    "errors": ("SplatError",),
    "gaussians.arrays": ("SplatArrays",),
    "gaussians.formats": ("read_splats", "write_splats"),
    "config.presets": ("load_config",),
    "api.result": ("RenderedImage", "Result", "Scores", "TrainedScene"),
    "sample": ("make_sample_city", "make_sample_scene"),
    "scene.view": ("Scene", "View"),
    "api.splats": ("convert", "evaluate", "render_view"),
}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        for module, names in _MODULES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f"splat_cli.{module}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

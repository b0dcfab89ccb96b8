"""How much device memory a run needs, how many splats fit, and what would help."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from splat_cli.config import TrainConfig
from splat_cli.console import Display
from splat_cli.data.image_budget import photo_bytes
from splat_cli.data.image_streamer import ImageBudget
from splat_cli.device import Backend
from splat_cli.errors import OutOfMemory
from splat_cli.field.from_config import field_shape
from splat_cli.gaussians.splats import num_rows
from splat_cli.milestones import milestones
from splat_cli.phase_timer import PhaseTimer
from splat_cli.render.camera import TILE
from splat_cli.run.training_data import TrainingData
from splat_cli.scene.view import View
from splat_cli.train.initialization import with_budget
from splat_cli.train.trainer import PAIRS_PER_SPLAT, Trainer

MIN_SPLATS = 1000
_GIB = 2**30
_USABLE = 0.95  # of what is free: others allocate too, and pools round up
_PROJECTED = 120  # bytes of render.project.Projection a splat
_SCORES = 8  # and of train.scorer
_PAIR = 28 + 1 / 32  # bytes a pair of TileLists and of the states that Picture saves
_PIXEL = 32 + 36  # bytes a pixel of Picture and of PhotometricLoss
_EXPOSED = 12  # with --exposure
_DEPTH = 76  # bytes a splat of optim.depth, with --depth-weight
_TILE = 4 * 256 * 4 + 20  # bytes a tile of the same and of TileLists


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a run takes: of its photographs, of the pictures it renders, a splat; and the bytes it may take."""

    photographs: int
    pictures: int
    per_splat: int
    available: int
    wanted_splats: int
    config: TrainConfig

    @property
    def max_splats(self) -> int:
        """The cap: as wanted, or what fits."""
        budget = self.available - self.photographs - self.pictures
        return min(self.wanted_splats, max(budget, 0) // self.per_splat)

    def check(self) -> None:
        """OutOfMemory, with what would help, where not even a few splats fit."""
        if self.max_splats < min(MIN_SPLATS, self.wanted_splats):
            raise OutOfMemory(f"{self.line()} do not fit; {self.advice()}")

    def line(self) -> str:
        """The plan in a line."""
        splats = self.per_splat * self.wanted_splats
        return (
            f"Memory: {_gib(splats)} for {self.wanted_splats:,} splats, {_gib(self.photographs)} for photographs, "
            f"{_gib(self.pictures)} for rendering, of {_gib(self.available)}"
        )

    def advice(self) -> str:
        """Three settings that would help, with numbers."""
        degree, smaller = self.config.trained_sh_degree, 0.75 * (self.photographs + self.pictures)
        colours = 1 - _splat_bytes(0) / _splat_bytes(degree)
        return (
            f"--downscale {2 * self.config.downscale} saves {_gib(smaller)}, --sh-degree 0 {colours:.0%} of a splat, "
            f"and --max-splats {max(self.max_splats, 1)} is what fits now"
        )


def fitting_trainer(
    backend: Backend, data: TrainingData, config: TrainConfig, display: Display, timer: PhaseTimer
) -> Trainer:
    """A trainer with as many splats at most as the device's memory allows."""
    photographs = data.training
    config = with_budget(config, photographs.views)
    plan = plan_memory(backend, config, photographs.views, len(data.points[0]), data.budget)
    plan.check()
    display.say(plan.line())
    if plan.max_splats < plan.wanted_splats:
        display.warn(f"only {plan.max_splats:,} splats fit; {plan.advice()}")
        config = dataclasses.replace(config, max_splats=plan.max_splats)
    try:
        return Trainer(
            backend, photographs.views, photographs.images, *data.points, config, photographs.masks, timer, data.budget,
            scene_points=data.scene.points, pose_offsets=data.pose_offsets,
        )  # fmt: skip
    except MemoryError:
        raise OutOfMemory(f"{plan.line()} did not fit; {plan.advice()}") from None


def plan_memory(
    backend: Backend, config: TrainConfig, views: Sequence[View], start: int, budget: ImageBudget | None = None
) -> MemoryPlan:
    """What training on `views` takes, from `start` splats on (0: unknown), and what the device has left.

    room: for how many photographs at a time, where not for all.
    """
    photographs = [photo_bytes(view) for view in views]
    pixels = [view.width * view.height for view in views]
    tiles = max(-(-view.width // TILE) * -(-view.height // TILE) for view in views)
    shape = field_shape(config)
    field_bytes, row_bytes = (shape.bytes, shape.bytes_per_row) if config.color == "field" else (0, 0)
    available = int(_USABLE * backend.memory()[0])
    if config.max_memory is not None:
        available = min(available, int(config.max_memory * _GIB))
    return MemoryPlan(
        photographs=sum(photographs) if budget is None else budget.resident * max(photographs),
        pictures=(_PIXEL + _EXPOSED * config.exposure) * max(pixels) + _TILE * tiles + field_bytes,
        per_splat=_splat_bytes(config.trained_sh_degree) + row_bytes + _DEPTH * (config.depth_weight > 0),
        available=available,
        wanted_splats=min(config.max_splats, start) if start and _never_grows(config) else config.max_splats,
        config=config,
    )


def _splat_bytes(sh_degree: int) -> int:
    """Parameters and moments, one more row of them while they grow, statistics, and what rendering takes."""
    return math.ceil(4 * 4 * num_rows(sh_degree) + 8 + _PROJECTED + _SCORES + _PAIR * PAIRS_PER_SPLAT)


def _never_grows(config: TrainConfig) -> bool:
    marks = milestones(config)
    return marks.densify_stop <= marks.densify_start + 1 or config.steps <= marks.densify_start


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / 2**20:.1f} MiB"

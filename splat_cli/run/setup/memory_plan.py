"""Memory plan of a run: device memory needed, number of splats that fit, advice."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from splat_cli.config import ResolvedConfig
from splat_cli.data.image_budget import ImageBudget, photo_bytes
from splat_cli.data.training_images import own_views
from splat_cli.device import Backend, ceil_div
from splat_cli.errors import OutOfMemory
from splat_cli.gaussians.splats import SHN, num_rows
from splat_cli.model.model import Model, RowsOnDevice, num_moments
from splat_cli.ranks.protocol import Share
from splat_cli.render.camera import TILE
from splat_cli.scene.view import View
from splat_cli.train.allocation import (
    MAX_INITIAL_PAIRS,
    PAIRS_PER_SPLAT,
    never_grows,
    num_branches,
    pairs_per_splat,
    training_memory,
)

MIN_SPLATS = 1000
_GIB = 2**30
_LEAST = RowsOnDevice(SHN.start, 1)  # rows that always stay on the device
_USABLE = 0.95  # fraction of the free memory: other programs allocate, too, and pools round up


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of a device in bytes: photographs, buffers, memory per splat and per (splat, tile) pair; and the limit.

    `pairs_per_splat` pairs are planned for each splat up to MAX_INITIAL_PAIRS, then one for each splat, or for every
    fourth where memory is short: most splats of large models are small or invisible in a view. num_frozen: number of
    splats of --frozen, each of which takes `saved_per_frozen` bytes fewer. on_device: where memory is short, the rows
    of the splats and their moments that are not in host memory; else None. on_host: bytes per splat of the other rows,
    and free host memory for them, with what frozen splats leave of it. branches: see RasterizationSettings.
    """

    photographs: int
    pictures: int
    per_splat: float
    per_pair: float
    available: int
    wanted_splats: int
    config: ResolvedConfig
    num_frozen: int = 0
    saved_per_frozen: float = 0
    on_device: RowsOnDevice | None = None
    on_host: tuple[int, int] = (0, 0)
    branches: int = 1

    @property
    def pairs_per_splat(self) -> int:
        """Number of pairs planned for a splat of a small model."""
        return pairs_per_splat(self.on_device)

    @property
    def _more_pairs(self) -> float:
        """Number of pairs planned for a splat of a large model beyond MAX_INITIAL_PAIRS."""
        return 0.25 if self.on_device else 1.0

    @property
    def max_splats(self) -> int:
        """Maximum number of splats: the requested number, or fewer if they do not fit."""
        return min(self.wanted_splats, self.fitting)

    @property
    def fits(self) -> bool:
        """Whether the requested number fits."""
        return self.max_splats == self.wanted_splats

    @property
    def fitting(self) -> int:
        """Number of splats that fit, in addition to the frozen ones."""
        budget = self.available - self.photographs - self.pictures + self.num_frozen * self.saved_per_frozen
        few = budget / (self.per_splat + self.pairs_per_splat * self.per_pair)
        many = (budget - MAX_INITIAL_PAIRS * self.per_pair) / (self.per_splat + self._more_pairs * self.per_pair)
        per_splat, host_room = self.on_host
        most = host_room // per_splat if per_splat else math.inf
        return max(int(min(max(few, many), most)) - self.num_frozen, 0)

    def splat_bytes(self, num: int) -> int:
        """Memory of `num` splats, frozen ones included, and of the pairs planned for them; the inverse of `fitting`."""
        pairs = min(self.pairs_per_splat * num, MAX_INITIAL_PAIRS + self._more_pairs * num)
        return math.ceil(self.per_splat * num + self.per_pair * pairs - self.saved_per_frozen * self.num_frozen)

    def trainable_of(self, num: int) -> int:
        """How many of `num` splats can be trained if the others are frozen."""
        per_splat, host_room = self.on_host
        if per_splat * num > host_room:
            return 0
        needed = dataclasses.replace(self, num_frozen=0).splat_bytes(num)
        excess = max(needed + self.photographs + self.pictures - self.available, 0)
        return max(num - math.ceil(excess / self.saved_per_frozen), 0)

    @property
    def fitting_beside_frozen(self) -> int:
        """Number of splats that fit together with the same number of frozen ones."""
        mean = self.per_splat - self.saved_per_frozen / 2
        return dataclasses.replace(self, per_splat=mean, num_frozen=0).fitting // 2

    def check(self) -> None:
        """OutOfMemory with advice if too few splats fit."""
        if self.max_splats < min(MIN_SPLATS, self.wanted_splats):
            raise OutOfMemory(f"{self.line()} do not fit; {self.advice()}")

    def line(self) -> str:
        """The plan in one line of text."""
        num = self.wanted_splats + self.num_frozen
        frozen = f" and {self.num_frozen:,} frozen ones" if self.num_frozen else ""
        moments = _moments_on_host(self.config, self.on_device) if self.on_device else 0
        host = self.on_host[0] * num - moments * self.num_frozen
        offloaded = f"; {_gib(host)} of splats and moments in host memory: slower, same result" if host else ""
        return (
            f"Memory: {_gib(self.splat_bytes(num))} for {self.wanted_splats:,} splats{frozen}, "
            f"{_gib(self.photographs)} for photographs, {_gib(self.pictures)} for rendering, of "
            f"{_gib(self.available)}{offloaded}"
        )

    def advice(self) -> str:
        """Three settings that reduce memory, with numbers."""
        smaller = 0.75 * (self.photographs + self.pictures)
        without = training_memory(dataclasses.replace(self.config, sh_degree=0), 1)
        per_splat = [
            cost.per_splat + PAIRS_PER_SPLAT * cost.per_pair for cost in (without, training_memory(self.config, 1))
        ]
        colours = 1 - per_splat[0] / per_splat[1]
        return (
            f"--downscale {2 * self.config.downscale} saves {_gib(smaller)}, --sh-degree 0 {colours:.0%} of a splat, "
            f"and --max-splats {max(self.max_splats, 1)} fits now"
        )


def plan_memory(
    backend: Backend,
    config: ResolvedConfig,
    views: Sequence[View],
    start: int,
    budget: ImageBudget | None = None,
    num_frozen: int = 0,
    depth_bytes: int = 0,
) -> MemoryPlan:
    """Memory of training on `views`, starting from `start` splats (0: unknown), and the free memory of the device.

    budget: number of resident images, if not all are. num_frozen: number of splats of --frozen.
    depth_bytes: memory of depth maps. If the splats do not fit, views of a batch follow one another. If they still do
    not, or with --offload on, some rows are in host memory.
    """
    images = [photo_bytes(view) for view in views]
    resident = _largest_part(images, config) if budget is None else budget.resident * max(images)
    pixels = max(view.width * view.height for view in views)
    tiles = max(ceil_div(view.width, TILE) * ceil_div(view.height, TILE) for view in views)
    available = _available(backend, config)

    def plan(on_device: RowsOnDevice | None = None, host_room: int = 0, branches: int = 1) -> MemoryPlan:
        cost = training_memory(config, len(views), config.deterministic and backend.name == "cuda", on_device, branches)
        return MemoryPlan(
            photographs=depth_bytes + resident,
            pictures=math.ceil(cost.fixed + cost.per_pixel * pixels + cost.per_tile * tiles),
            per_splat=cost.per_splat,
            per_pair=cost.per_pair,
            available=available,
            wanted_splats=min(config.max_splats, start) if start and never_grows(config) else config.max_splats,
            config=config,
            num_frozen=num_frozen,
            saved_per_frozen=Model.bytes_of_moments(on_device, config.num_features),
            on_device=on_device,
            on_host=_on_host(config, on_device, host_room, num_frozen) if on_device else (0, 0),
            branches=branches,
        )

    fetches = budget is not None and budget.on_host
    in_memory = plan(branches=num_branches(config, backend, pixels, None, fetches))
    if not in_memory.fits:
        in_memory = plan()
    if not _offloads(in_memory):
        return in_memory
    host_room = backend.host_room() - (sum(images) if fetches else 0)
    if host_room <= 0:
        return in_memory
    least = plan(_LEAST, host_room)
    return plan(_rows_that_fit(least), host_room) if config.offload == "auto" else least


def _on_host(config: ResolvedConfig, on_device: RowsOnDevice, host_room: int, num_frozen: int) -> tuple[int, int]:
    """See MemoryPlan.on_host. host_room: free host memory without splats."""
    moments = _moments_on_host(config, on_device)
    per_splat = 4 * (_all_rows(config).params - on_device.params) + moments
    return per_splat, host_room + moments * num_frozen


def _available(backend: Backend, config: ResolvedConfig) -> int:
    """Bytes of device memory that the run may use."""
    usable = int(_USABLE * backend.memory()[0])
    return usable if config.max_memory is None else min(usable, int(config.max_memory * _GIB))


def _largest_part(images: Sequence[int], config: ResolvedConfig) -> int:
    """Bytes of the photographs of a rank, for the rank with most. images: bytes of each photograph."""
    shares = [Share(rank, config.gpus) for rank in range(config.gpus)]
    return max(sum(images[view] for view in own_views(len(images), config.batch_size, share)) for share in shares)


def _offloads(in_memory: MemoryPlan) -> bool:
    """Whether rows go to host memory, if it has room, instead of this plan."""
    config = in_memory.config
    can_offload = config.gpus == 1 and config.trained_sh_degree > 0 and not config.num_features
    return can_offload and (config.offload == "on" or (config.offload == "auto" and not in_memory.fits))


def _rows_that_fit(least: MemoryPlan) -> RowsOnDevice:
    """Rows on the device that leave room for the wanted splats. least: the plan with as few rows as possible.

    Parameters come first: each view reads them twice, moments are read and written once per update.
    """
    num, rows = least.wanted_splats + least.num_frozen, _all_rows(least.config)
    room = least.available - least.photographs - least.pictures - least.splat_bytes(num)
    words = max(room // (4 * num), 0)
    params = min(SHN.start + words, rows.params)
    words -= params - SHN.start
    return RowsOnDevice(params, min(_LEAST.moments + words, rows.moments))


def _all_rows(config: ResolvedConfig) -> RowsOnDevice:
    return RowsOnDevice(num_rows(config.trained_sh_degree, config.num_features), num_moments(config.num_features))


def _moments_on_host(config: ResolvedConfig, on_device: RowsOnDevice) -> int:
    """Bytes of a splat's moments in host memory; frozen splats have none."""
    return 4 * (_all_rows(config).moments - on_device.moments)


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / 2**20:.1f} MiB"

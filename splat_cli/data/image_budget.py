"""Memory budget of photographs: number of resident and of prefetched images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from splat_cli.config import TrainConfig
from splat_cli.device import Backend, ceil_div, main_memory
from splat_cli.errors import UsageError
from splat_cli.scene.view import View

_SHARE = 0.5  # fraction of the free memory
_SHARE_OF_MAX = 1 / 16  # fraction of --max-memory; the splats need the rest
_DEPTH_SHARE = 0.25  # fraction of the photographs' memory that depth maps may take
_MIN_COUNT = 4
_BATCHES = 3  # one running on the device, one queued, one being loaded
WORKERS = os.cpu_count() or 1  # threads that decode


@dataclass(frozen=True)
class ImageBudget:
    """Maximum numbers of photographs: resident on the device, and decoded ahead of use.

    on_host: the others are not streamed but in host memory that kernels access (PhotographRows).
    """

    resident: int
    prefetch: int
    on_host: bool = False

    @classmethod
    def of(cls, count: int) -> ImageBudget:
        """Budget of `count` photographs in total, at least 3."""
        ahead = min(count // 3, WORKERS)
        return cls(count - ahead, ahead)

    @staticmethod
    def count_for(resident: int) -> int:
        """Number of photographs of the smallest budget that keeps at least `resident` of them on the device."""
        return ceil_div(3 * resident, 2)

    @property
    def resident_if_streamed(self) -> int | None:
        """Number of resident photographs if the others are streamed, which limits batches; else None."""
        return None if self.on_host else self.resident


def photo_bytes(view: View) -> int:
    """Memory of a photograph at its view's size, in bytes, including its mask or the mask that undistortion may add."""
    return (3 + (view.mask is not None or view.lens is not None)) * view.width * view.height


def resident_for_batch(batch: int, gpus: int) -> int:
    """Number of photographs that each GPU must hold to train in batches of `batch`."""
    return _BATCHES * (batch // gpus) if batch > 1 else 0


def images_fit(backend: Backend, config: TrainConfig, views: Sequence[View]) -> bool:
    """Whether the photographs of these views all fit into memory."""
    return sum(map(photo_bytes, views)) <= _limit(backend, config)


def image_budget(
    backend: Backend, config: TrainConfig, views: Sequence[View], others: Sequence[View]
) -> ImageBudget | None:
    """Budget of a GPU's part of the training photographs, in addition to all held-out ones (`others`); None if all fit.

    Photographs that do not fit on one GPU are in host memory that kernels access, if they fit there and --image-memory
    does not limit them; otherwise they are streamed.
    UsageError if not even the photographs of one round of density control fit.
    """
    gpus, largest = config.gpus, max(map(photo_bytes, views))
    least = max(ceil_div(min(config.score_views, len(views)), gpus), resident_for_batch(config.batch_size, gpus))
    limit, all_bytes = _limit(backend, config, gpus), sum(map(photo_bytes, [*views, *others]))
    resident = limit // largest
    if config.max_memory is not None and config.image_memory is None:
        resident = 1  # photographs cost less on the host than splats do
        count = max(ImageBudget.count_for(least), _MIN_COUNT)
        limit = min(limit, max(int(_SHARE_OF_MAX * config.max_memory * 2**30), count * largest))
    if ceil_div(sum(map(photo_bytes, views)), gpus) + sum(map(photo_bytes, others)) <= limit:
        return None
    if gpus == 1 and config.image_memory is None and all_bytes <= backend.host_room() // 2:  # and in main memory, too
        return ImageBudget(max(resident, 1), 0, on_host=True)
    budget = ImageBudget.of(max(limit // largest, _MIN_COUNT))
    if limit < _MIN_COUNT * largest or budget.resident < least:
        raise UsageError(
            f"{limit / 2**20:.1f} MiB hold {limit // largest} photographs of {largest / 2**20:.1f} MiB, too few to "
            f"train on: give more --image-memory, or --downscale {2 * config.downscale}, or fewer --score-views"
            + (" or a smaller --batch" if config.batch_size > 1 else "")
        )
    return budget


def depth_map_limit(backend: Backend, config: TrainConfig) -> int:
    """Memory limit of depth maps in bytes. All are resident, in addition to the photographs."""
    return int(_DEPTH_SHARE * _limit(backend, config))


def _limit(backend: Backend, config: TrainConfig, gpus: int = 1) -> int:
    """Memory limit of a GPU's part, in bytes. On the host, rank 0 holds all parts, and every other rank its own."""
    if config.image_memory is not None:
        return int(config.image_memory * 2**30)
    return int(_SHARE * min(backend.memory()[0], main_memory()[0] // (2 * gpus - 1)))

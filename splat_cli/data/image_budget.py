"""Memory budget of photographs: number of resident and of prefetched images."""

from collections.abc import Sequence

from splat_cli.config import TrainConfig
from splat_cli.data.image_streamer import ImageBudget
from splat_cli.device import Backend, main_memory
from splat_cli.errors import UsageError
from splat_cli.scene.view import View

_SHARE = 0.5  # of what is free
_MIN_COUNT = 4
_BATCHES = 3  # one that the device works on, one that is queued, one that is loaded


def photo_bytes(view: View) -> int:
    """What a photograph takes at its view's size, with the mask that it has or that undistortion may give it."""
    return (3 + (view.mask is not None or view.lens is not None)) * view.width * view.height


def all_fit(backend: Backend, config: TrainConfig, views: Sequence[View]) -> bool:
    """Whether the photographs of these views may be in memory at once."""
    return sum(map(photo_bytes, views)) <= _limit(backend, config)


def image_budget(
    backend: Backend, config: TrainConfig, views: Sequence[View], others: Sequence[View]
) -> ImageBudget | None:
    """ImageBudget for photographs to train on, beside `others` that are held out; None where all of them fit.

    UsageError where not even those fit that one round of density control looks at.
    """
    if all_fit(backend, config, [*views, *others]):
        return None
    limit = _limit(backend, config)
    largest = max(map(photo_bytes, views))
    budget = ImageBudget.of(max(limit // largest, _MIN_COUNT))
    least = max(min(config.score_views, len(views)), _BATCHES * config.batch if config.batch > 1 else 0)
    if limit < _MIN_COUNT * largest or budget.resident < least:
        raise UsageError(
            f"{limit / 2**20:.1f} MiB hold {limit // largest} photographs of {largest / 2**20:.1f} MiB, too few to "
            f"train on: give more --image-memory, or --downscale {2 * config.downscale}, or fewer --score-views"
            + (" or a smaller --batch" if config.batch > 1 else "")
        )
    return budget


def _limit(backend: Backend, config: TrainConfig) -> int:
    """Bytes."""
    if config.image_memory is not None:
        return int(config.image_memory * 2**30)
    return int(_SHARE * min(backend.memory()[0], main_memory()[0]))

"""Going on after an allocation has failed in the middle of training: with the splats there are, or with fewer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from splat_cli.errors import OutOfMemory
from splat_cli.gaussians.splats import OPACITY
from splat_cli.optim.model import Model

if TYPE_CHECKING:
    from splat_cli.train.trainer import Trainer

T = TypeVar("T")
_KEPT = 0.9  # of the splats, each time that what rendering needs does not fit
_PAIR_ROOM = 1.2
_MIN_SPLATS, _MIN_PAIRS = 100, 1024


def recover_from_oom(trainer: Trainer) -> str:
    """Gives up all scratch memory and takes it again, dropping the most transparent splats until it fits.

    The number of splats is capped at what is left, and the step that failed can be repeated. Returns what to tell the
    user. OutOfMemory where nothing helps.
    """
    model, raster, before = trainer.model, trainer.rasterizer, trainer.model.num
    pairs = max(int(_PAIR_ROOM * trainer.state.read()["needed_pairs"]), _MIN_PAIRS)
    while True:
        _give_up_scratch(trainer)
        try:
            raster.resize_splats(model.splats.capacity)
            raster.resize_pairs(pairs)
            break
        except MemoryError:
            if model.num < _MIN_SPLATS:
                raise _nothing_helps(trainer, pairs) from None
            raster.release()
            keep_most_opaque(model, int(_KEPT * model.num))
            pairs = max(int(_KEPT * pairs), _MIN_PAIRS)
    trainer.cap_splats(model.num)
    trainer.state.write(step=trainer.step, num_splats=model.num, overflowed=0)
    dropped = f"; the {before - model.num:,} most transparent were dropped" if before > model.num else ""
    return f"out of device memory at step {trainer.step}: going on with at most {model.num:,} splats{dropped}"


def run_with_memory_fallback(trainer: Trainer, work: Callable[[], T]) -> T:
    """What `work` returns, which takes device memory of its own between two steps.

    Where there is not enough beside training, training's scratch memory is given up for it, and `work` begins again.
    """
    try:
        return work()
    except MemoryError:
        pass  # what it had taken is free again only after this block
    raster, pairs = trainer.rasterizer, trainer.rasterizer.tiles.pair_capacity
    _give_up_scratch(trainer)
    try:
        return work()
    finally:
        trainer.backend.release_cached()
        try:
            raster.resize_splats(trainer.splats.capacity)
            raster.resize_pairs(pairs)
        except MemoryError:
            trainer.notices.append(recover_from_oom(trainer))


def keep_most_opaque(model: Model, num: int) -> None:
    """Drops the most transparent splats but `num`, and gives their memory back."""
    xp = model.backend.xp
    prune_mask = xp.ones(model.num, bool)
    prune_mask[xp.argsort(-model.splats.params[OPACITY, : model.num])[:num]] = False
    model.remove(prune_mask)
    model.rebuild(model.num)


def _give_up_scratch(trainer: Trainer) -> None:
    trainer.rasterizer.release()
    trainer.scorer.release()
    trainer.backend.release_cached()


def _nothing_helps(trainer: Trainer, pairs: int) -> OutOfMemory:
    return OutOfMemory(
        f"the device cannot hold {trainer.model.num} splats and {pairs:,} pairs: use --max-splats, "
        f"--downscale {2 * trainer.config.downscale} or --sh-degree 0, or end other programs that use it"
    )

"""Out-of-memory recovery: release scratch buffers, prune the least opaque splats until training fits, repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from splat_cli.errors import OutOfMemory
from splat_cli.gaussians.splats import OPACITY
from splat_cli.model.model import Model
from splat_cli.train.sharding import Sharding
from splat_cli.train.step import BatchStep
from splat_cli.train.view_scores import ViewScorer

T = TypeVar("T")
_KEPT = 0.9  # fraction of the splats kept in each attempt
_PAIR_HEADROOM = 1.2
_MIN_SPLATS, _MIN_PAIRS = 100, 1024


class ScratchMemory:
    """Scratch buffers of training, which can be released and reallocated. allocated: whether they are allocated."""

    def __init__(self, batch_step: BatchStep, scorer: ViewScorer, sharding: Sharding) -> None:
        self.model, self.rasterizer, self._batch_step = batch_step.model, batch_step.rasterizer, batch_step
        self.joint, self.state = batch_step.joint, batch_step.state
        self.scorer, self.allocated, self._sharding = scorer, True, sharding
        self.joint.resize(self.model.splats.capacity)

    def leave_branches(self, fit: Callable[[float], object]) -> bool:
        """Render one view at a time from now on; returns whether training then fits. fit: see `recover`."""
        if self._batch_step.branches == 1:
            return False
        self.release()
        self._batch_step.leave_branches()
        return _fits(fit, 1.0)

    def recover(self, step: int, fit: Callable[[float], object], prune: Callable[[int], object]) -> str:
        """Prune the least opaque splats until training from step `step` on fits; returns a notice.

        fit: reallocates all buffers, with this share of the pairs needed now. prune: removes all but this number of
        trained splats. OutOfMemory if pruning does not help.
        """
        sharding, scale = self._sharding, 1.0
        before, num_frozen = sharding.num_splats, self.model.num_frozen
        while not _fits(fit, scale):
            num = sharding.num_splats
            if num - num_frozen < _MIN_SPLATS or not _fits(prune, int(_KEPT * (num - num_frozen))):
                raise _out_of_memory(num, self.pairs_needed(scale))
            scale *= _KEPT
        num = sharding.num_splats
        pruned = f"; the {before - num:,} least opaque were pruned" if before > num else ""
        return f"out of device memory at step {step}: continuing with at most {num:,} splats{pruned}"

    def pairs_needed(self, scale: float) -> int:
        """Size of the pair buffers, with headroom, for `scale` times the pairs of the last view."""
        return max(int(_PAIR_HEADROOM * scale * self.state.read()["needed_pairs"]), _MIN_PAIRS)

    def reallocate(self, scale: float) -> None:
        """Release and allocate all scratch buffers, for `scale` times the pairs needed now. Raises MemoryError."""
        pairs = self.pairs_needed(scale)
        self.release()
        try:
            self.allocate(pairs)
        except MemoryError:
            self.release()
            raise

    def run_or_release(self, work: Callable[[], T]) -> T:
        """The result of `work`; if memory runs out, release the scratch buffers and repeat it.

        `allocated` is False afterwards if the buffers could not be reallocated.
        """
        try:
            return work()
        except MemoryError:
            pass  # the memory of `work` is freed with the exception, after this block
        pairs = self.rasterizer.tiles.pair_capacity
        self.release()
        try:
            return work()
        finally:
            self.model.backend.release_cached()
            try:
                self.allocate(pairs)
            except MemoryError:
                self.allocated = False

    def release(self) -> None:
        """Free all scratch buffers."""
        self.allocated = False
        self.rasterizer.release()
        self.scorer.release()
        self.model.backend.release_cached()

    def allocate(self, pairs: int) -> None:
        """Allocate all scratch buffers for the splats of all ranks. Raises MemoryError."""
        self.resize_splats(self._sharding.capacity)
        self.rasterizer.resize_pairs(pairs)
        self.allocated = True

    def resize_splats(self, capacity: int) -> None:
        """Allocate the scratch buffers that have room for `capacity` splats, after the model was reallocated."""
        self.rasterizer.resize_splats(capacity)
        self.joint.resize(capacity)


def keep_most_opaque(model: Model, num: int) -> None:
    """Prune all but the `num` most opaque of the trained splats, and free their memory."""
    xp, first = model.backend.xp, model.num_frozen
    prune_mask = xp.ones(model.num, bool)
    prune_mask[:first] = False
    prune_mask[first:][xp.argsort(-model.splats.params[OPACITY, first : model.num])[:num]] = False
    model.remove(prune_mask)
    model.rebuild(model.num)


def _fits(work: Callable[[T], object], argument: T) -> bool:
    """Whether `work` does not run out of memory."""
    try:
        work(argument)
    except MemoryError:
        return False
    return True


def _out_of_memory(num_splats: int, pairs: int) -> OutOfMemory:
    return OutOfMemory(
        f"the device cannot hold {num_splats:,} splats and {pairs:,} pairs: use --max-splats, a larger --downscale or "
        "--sh-degree 0, or close other programs that use the device"
    )

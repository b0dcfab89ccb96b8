"""Out-of-memory recovery: release scratch buffers, prune the least opaque splats until training fits, repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from splat_cli.errors import OutOfMemory
from splat_cli.gaussians.splats import OPACITY
from splat_cli.model.model import Model
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.joint_models import JointModels
from splat_cli.train.view_scores import ViewScorer

T = TypeVar("T")
_KEPT = 0.9  # fraction of the splats kept in each attempt
_PAIR_HEADROOM = 1.2
_MIN_SPLATS, _MIN_PAIRS = 100, 1024


class ScratchMemory:
    """Scratch buffers of training, which can be released and reallocated. allocated: whether they are allocated."""

    def __init__(
        self, model: Model, rasterizer: Rasterizer, joint: JointModels, scorer: ViewScorer, state: IterState
    ) -> None:
        self.model, self.rasterizer, self.joint, self.scorer, self.state = model, rasterizer, joint, scorer, state
        self.allocated = True
        joint.resize(model.splats.capacity)

    def recover(self, step: int, fit_others: Callable[[], object] = lambda: None) -> str:
        """Release and reallocate all scratch buffers, pruning the least opaque splats until they fit; returns a notice.

        Step `step` can be repeated afterwards. fit_others: raises MemoryError if the splats do not fit on other ranks.
        OutOfMemory if pruning does not help.
        """
        model, before = self.model, self.model.num
        pairs = self.pairs_needed()
        while True:
            self.release()
            try:
                self.allocate(pairs)
                fit_others()
                break
            except MemoryError:
                self.release()
                if model.num_trained < _MIN_SPLATS or not _prune(model, int(_KEPT * model.num_trained)):
                    raise _out_of_memory(model.num, pairs) from None
                pairs = max(int(_KEPT * pairs), _MIN_PAIRS)
        self.state.write(step=step, num_splats=model.num, overflowed=0)
        pruned = f"; the {before - model.num:,} least opaque were pruned" if before > model.num else ""
        return f"out of device memory at step {step}: continuing with at most {model.num:,} splats{pruned}"

    def pairs_needed(self, scale: float = 1.0) -> int:
        """Size of the pair buffers, with headroom, for `scale` times the splats of the last view."""
        return max(int(_PAIR_HEADROOM * scale * self.state.read()["needed_pairs"]), _MIN_PAIRS)

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

    def allocate(self, pairs: int, capacity: int | None = None) -> None:
        """Allocate all scratch buffers, for `capacity` splats, by default the model's. Raises MemoryError."""
        self.resize_splats(capacity or self.model.splats.capacity)
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


def _prune(model: Model, num: int) -> bool:
    """`keep_most_opaque`; False if there is not enough memory for it."""
    try:
        keep_most_opaque(model, num)
    except MemoryError:
        return False
    return True


def _out_of_memory(num_splats: int, pairs: int) -> OutOfMemory:
    return OutOfMemory(
        f"the device cannot hold {num_splats:,} splats and {pairs:,} pairs: use --max-splats, a larger --downscale or "
        "--sh-degree 0, or close other programs that use the device"
    )

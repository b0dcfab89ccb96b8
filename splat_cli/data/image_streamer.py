"""Streaming of photographs to the device, for datasets larger than its memory or the host's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from splat_cli.data.image_budget import WORKERS, ImageBudget
from splat_cli.device import Backend
from splat_cli.render.camera import CameraTable, DeviceImage
from splat_cli.scene.images.downscale import downscale_photograph

_HORIZON = 128  # maximum number of steps scheduled ahead
Staged = tuple[np.ndarray, np.ndarray | None, int]


class ImageStreamer:
    """Keeps the photographs of the next steps on the device, in an order known in advance; threads decode later ones.

    images: uint8 [H, W, 3], masks: uint8 [H, W] or None, of the cameras' views; read on demand. order: int32 [steps],
    the view of each step. When the budget is exhausted, the photograph with the latest next use is evicted (Belady
    1966), so if a set nearly fits, only a small part of it is decoded repeatedly.

    The device does not wait for the host while decoding keeps up: a third of the budget is for steps that run, a
    third for queued steps, a third for steps whose photographs are being loaded.
    """

    def __init__(
        self,
        backend: Backend,
        cameras: CameraTable,
        images: Sequence[np.ndarray],
        masks: Sequence[np.ndarray | None],
        order: np.ndarray,
        budget: ImageBudget,
        batch: int = 1,
    ) -> None:
        """batch: number of steps queued together."""
        self.batch = batch
        self.cameras, self.images, self.masks, self.order, self.budget = cameras, images, masks, order, budget
        self._uploads = backend.uploads()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="photographs")
        self._pending: dict[int, Future[Staged]] = {}
        self._resident: dict[int, DeviceImage] = {}
        self._downscale = 1
        self._is_resident = np.zeros(len(cameras.views), bool)
        self._following = _next_uses(order)
        self._done, self._ready = len(order), 0  # steps done; all photographs of steps before this one are resident
        self._queued: tuple[int, Callable[[], None]] | None = None  # steps queued at the last call; waits for them
        self._next_use = np.full(len(cameras.views), len(order))

    def ready(self, step: int) -> int:
        """The step up to which training can continue from `step`: the end of the next batch or of a later one.

        All steps before `step` must be queued. Waits for the steps queued at the last call, to evict their
        photographs. After a repeated or changed step, nothing may be queued.
        """
        if self._queued is None or not self._queued[0] <= step <= self._ready:
            self._begin(step)
        else:
            self._pass_queued()
        self._queued = step, self._uploads.mark()
        self._get_ready(step)
        half = step + (self._ready - step + 1) // 2
        return max(half // self.batch * self.batch, self._batch_end(step))

    def load(self, views: Sequence[int] | np.ndarray) -> None:
        """Load these views' photographs, at most `budget.resident`, out of order, between two steps."""
        self._pass_queued()
        wanted = [int(view) for view in views]
        missing = [view for view in wanted if not self._is_resident[view]]
        self._make_room(self._done, len(missing), kept=wanted)  # before decoding them
        decoded = [self._take(view) for view in missing]
        for view, staged in zip(missing, decoded, strict=True):
            self._upload(view, staged)
        self._publish(missing)

    def restart(self, downscale: int) -> None:
        """Drop all photographs, between two steps. Later ones are downscaled by this factor, so more of them fit."""
        self._pass_queued()
        for pending in self._pending.values():
            pending.cancel()
        self._pending.clear()
        self._resident.clear()
        self._is_resident[:] = False
        self._queued, self._downscale = None, downscale

    def _batch_end(self, step: int) -> int:
        return (step // self.batch + 1) * self.batch

    def _begin(self, step: int) -> None:
        """Reset the schedule at `step`; no step is running."""
        self._next_use[:] = len(self.order)
        self._next_use[self.order[step:][::-1]] = np.arange(step, len(self.order))[::-1]
        self._done = self._ready = step

    def _pass_queued(self) -> None:
        """Mark the steps queued at the last call of `ready` as done."""
        if self._queued:
            step, wait = self._queued
            wait()
            self._next_use[self.order[self._done : step]] = self._following[self._done : step]
            self._done = step

    def _get_ready(self, step: int) -> None:
        """Upload decoded photographs within the budget, in the order of use; waits only for the batch of `step`."""
        self._decode_ahead()
        loaded, needed = list[int](), self._batch_end(step)
        last = min(step + _HORIZON, len(self.order))
        try:
            while self._ready < last:
                view = int(self.order[self._ready])
                if not self._is_resident[view]:
                    if (self._ready >= needed and not self._is_decoded(view)) or not self._make_room(self._ready):
                        break
                    self._upload(view)
                    loaded.append(view)
                    self._decode_ahead()
                self._ready += 1
        finally:  # after a MemoryError, training may continue with less
            self._publish(loaded)

    def _make_room(self, step: int, count: int = 1, kept: Sequence[int] = ()) -> bool:
        """Evict photographs for `count` more; False if all others are needed before `step` or `kept`."""
        while len(self._resident) + count > self.budget.resident * self._downscale**2:
            until_use = np.where(self._is_resident, self._next_use, -1)
            until_use[list(kept)] = -1
            victim = int(until_use.argmax())
            if until_use[victim] < step:
                return False
            del self._resident[victim]
            self._is_resident[victim] = False
            self._ready = min(self._ready, int(self._next_use[victim]))
        return True

    def _upload(self, view: int, pending: Future[Staged] | None = None) -> None:
        photo, mask, num_pixels = (pending or self._take(view)).result()
        self._resident[view] = (self._uploads.put(photo), None if mask is None else self._uploads.put(mask), num_pixels)
        self._is_resident[view] = True

    def _publish(self, views: Sequence[int]) -> None:
        """Publish the uploaded photographs in the camera table."""
        if views:
            self._uploads.join()
            self.cameras.set_images({view: self._resident[view] for view in views})

    def _decode_ahead(self) -> None:
        """Submit decoding of the photographs needed next; cancel requests that are no longer among them."""
        upcoming = self.order[self._ready : self._ready + len(self._is_resident)]
        wanted = list(dict.fromkeys(upcoming[~self._is_resident[upcoming]].tolist()))[: self.budget.prefetch]
        for view in self._pending.keys() - wanted:
            self._pending.pop(view).cancel()
        for view in wanted:
            if view not in self._pending:
                self._pending[view] = self._decode(view)

    def _is_decoded(self, view: int) -> bool:
        return view in self._pending and self._pending[view].done()

    def _take(self, view: int) -> Future[Staged]:
        return self._pending.pop(view) if view in self._pending else self._decode(view)

    def _decode(self, view: int) -> Future[Staged]:
        return self._pool.submit(self._staged, view, self._downscale)

    def _staged(self, view: int, downscale: int) -> Staged:
        photo, mask, num_pixels = downscale_photograph(self.images[view], self.masks[view], downscale)
        return self._uploads.stage(photo), None if mask is None else self._uploads.stage(mask), num_pixels


def _next_uses(order: np.ndarray) -> np.ndarray:
    """For each step, the next step with the same view, or the number of steps; int64 [steps]."""
    by_view = np.argsort(order, kind="stable")
    following = np.full(len(order), len(order))
    same = order[by_view[:-1]] == order[by_view[1:]]
    following[by_view[:-1][same]] = by_view[1:][same]
    return following

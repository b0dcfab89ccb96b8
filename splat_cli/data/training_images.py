"""Photographs of a run on the device, all of them or streamed, at the resolution of the current step; their order.

Slot b of each batch shows only views v with v % batch = b. A rank has the same slots in all batches, so it needs only a
part of the photographs, while the order is the same for any number of ranks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.data.image_budget import ImageBudget
from splat_cli.data.image_streamer import ImageStreamer
from splat_cli.device import Backend, DeviceArray, ceil_div, launch
from splat_cli.ranks.protocol import WHOLE, Share
from splat_cli.render.camera import CameraTable, DeviceImage
from splat_cli.render.iter_state import IterState
from splat_cli.scene.images.downscale import downscale_photograph
from splat_cli.scene.images.image_set import ImageSet


def view_order(num_views: int, steps: int, seed: int, batch: int = 1) -> np.ndarray:
    """View of each step, int32 [steps]: random permutations of all views, or of the views of each slot of a batch.

    The order of a shorter run is a prefix of the order of a longer run, so runs can be extended.
    """
    rng = np.random.default_rng((seed, 1))  # separate from the generator of density control
    num_batches = ceil_div(steps, batch)
    num_rounds = ceil_div(num_batches, max(num_views // batch, 1))  # enough for the slots with the fewest views
    rounds = np.concatenate([rng.permutation(num_views) for _ in range(num_rounds)])
    order = np.empty(num_batches * batch, np.int32)
    for slot in range(batch):
        order[slot::batch] = rounds[_slot_of(rounds, num_views, batch) == slot % min(batch, num_views)][:num_batches]
    return order[:steps]


def in_slots(permutation: np.ndarray, batch: int) -> np.ndarray:
    """A permutation of all views in which the j-th one belongs to slot j % batch."""
    order, slots = np.empty_like(permutation), permutation % batch
    for slot in range(batch):
        order[slot::batch] = permutation[slots == slot]
    return order


def own_views(num_views: int, batch: int, share: Share) -> list[int]:
    """Views that a rank shows, ascending: views of slots b with b % num_ranks = rank. A single rank shows all."""
    classes = np.arange(share.rank, batch, share.num_ranks) % min(batch, num_views)
    views = np.arange(num_views)
    return [int(view) for view in views[np.isin(_slot_of(views, num_views, batch), classes)]]


def _slot_of(views: np.ndarray, num_views: int, batch: int) -> np.ndarray:
    """Slot of each view; with fewer views than slots, further slots repeat the first ones."""
    return views % min(batch, num_views)


ROW_GRAIN = 1024  # bytes of a photograph's row are a multiple of this


class TrainingImages:
    """The table of training cameras, and the photographs on the device that it refers to.

    images: the photographs on the host, at full resolution. budget: number of photographs on the device, if not all.
    stream: loads photographs in the order of the steps, if kernels do not access the others in host memory; else None.
    share: a rank's share; the rank has only the photographs that it shows.
    """

    def __init__(
        self,
        backend: Backend,
        images: ImageSet,
        order: np.ndarray,
        budget: ImageBudget | None = None,
        downscale: int = 1,
        batch: int = 1,
        share: Share = WHOLE,
    ) -> None:
        self.backend, self.images, self.cameras = backend, images, CameraTable(backend, images.views)
        self.stream: ImageStreamer | None = None
        self._rows: PhotographRows | None = None
        if budget is not None and budget.on_host:
            self._rows = PhotographRows(backend, images, self.cameras, budget.resident - 1)
            self.cameras.fetch_photograph = self._rows.fetch
        elif budget is not None:
            self.stream = _PartStreamer(backend, self.cameras, images, order, budget, batch, share)
        self._own = own_views(len(images.views), batch, share)
        self._resident: dict[int, DeviceImage] = {}
        self._downscale = 0  # no photograph has been shown yet
        self.set_downscale(downscale)

    def load(self, views: Sequence[int] | np.ndarray) -> None:
        """Load the photographs of these views between two steps, if photographs are streamed."""
        if self.stream:
            self.stream.load(views)

    def set_downscale(self, downscale: int) -> bool:
        """Downscale all views by this factor, between two steps; returns whether the factor has changed.

        The device holds photographs of one resolution at a time. After a MemoryError, call it again before the next
        step.
        """
        if downscale == self._downscale:
            return False
        self._downscale = 0
        if self.stream:
            self.stream.restart(downscale)
        else:
            self._upload(downscale)
        self.cameras.resize(downscale, self._resident)
        self._downscale = downscale
        return True

    def _upload(self, downscale: int) -> None:
        self.backend.synchronize()  # queued steps read the previous photographs
        self._resident.clear()
        put = self._rows.put if self._rows else self._put
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            images, masks = self.images.images, self.images.masks
            downscaled = pool.map(lambda i: downscale_photograph(images[i], masks[i], downscale), self._own)
            for index, (photo, mask, num_pixels) in zip(self._own, downscaled, strict=True):
                self._resident[index] = (*put(index, photo, mask), num_pixels)

    def _put(self, _: int, photo: np.ndarray, mask: np.ndarray | None) -> tuple[DeviceArray, DeviceArray | None]:
        return self.backend.upload(photo), None if mask is None else self.backend.upload(mask)


class PhotographRows:
    """Photographs and masks in rows; the first `on_device` rows are on the device, the others in host memory.

    The loss reads each pixel several times. Therefore all cameras refer to one place on the device, to which `fetch`
    first copies the photograph of a step.
    """

    def __init__(self, backend: Backend, images: ImageSet, cameras: CameraTable, on_device: int) -> None:
        self._backend, self._cameras = backend, cameras
        sizes = [
            photo.size + (0 if mask is None else mask.size)
            for photo, mask in zip(images.images, images.masks, strict=True)
        ]
        words = ceil_div(max(sizes), ROW_GRAIN) * ROW_GRAIN // 4
        self._rows = backend.planes(len(sizes), words, min(on_device, len(sizes)))
        self._place = backend.xp.zeros(words, "float32")

    def put(self, index: int, photo: np.ndarray, mask: np.ndarray | None) -> tuple[DeviceArray, DeviceArray | None]:
        """Store a photograph uint8 [H, W, 3] and its mask uint8 [H, W]; returns where `fetch` copies them."""
        row, place = self._rows[index].view("uint8"), self._place.view("uint8")
        shape, num_pixels = photo.shape, photo.size // 3
        row[: photo.size] = self._backend.upload(photo.reshape(-1))
        if mask is None:
            return place[: photo.size].reshape(shape), None
        row[photo.size : 4 * num_pixels] = self._backend.upload(mask.reshape(-1))
        return place[: photo.size].reshape(shape), place[photo.size : 4 * num_pixels].reshape(shape[:2])

    def fetch(self, state: IterState) -> None:
        """See CameraTable.fetch_photograph."""
        arrays, stride = (self._cameras.array, state.array, self._rows, self._place), len(self._place) // 4
        launch(self._backend, "image/fetch_photograph", "fetch_photograph", stride, *arrays, stride)


def downscale_at(config: ResolvedConfig, step: int) -> int:
    """Factor by which photographs are downscaled in the step after `step` steps.

    It halves at even intervals up to the fraction `coarse_until` of the run; steps are rounded to multiples of
    `densify_interval`.
    """
    shares = [config.coarse_until * level / config.coarse_levels for level in range(1, config.coarse_levels + 1)]
    ends = [config.densify_interval * round(share * config.steps / config.densify_interval) for share in shares]
    factor: int = 2 ** sum(step < end for end in ends)
    return factor


class _PartStreamer(ImageStreamer):
    """Streams the photographs of a rank, which shows every num_ranks-th step."""

    def __init__(
        self,
        backend: Backend,
        cameras: CameraTable,
        images: ImageSet,
        order: np.ndarray,
        budget: ImageBudget,
        batch: int,
        share: Share,
    ) -> None:
        self._num_ranks = share.num_ranks
        own_order, own_batch = order[share.rank :: share.num_ranks], batch // share.num_ranks
        super().__init__(backend, cameras, images.images, images.masks, own_order, budget, own_batch)

    def ready(self, step: int) -> int:
        """See ImageStreamer.ready; counts steps of all ranks, at the beginning of a batch."""
        return self._num_ranks * super().ready(step // self._num_ranks)

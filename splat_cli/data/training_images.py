"""Photographs of a run on the device, all of them or streamed, at the resolution of the current step."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from splat_cli.data.image_streamer import ImageBudget, ImageStreamer
from splat_cli.device import Backend
from splat_cli.render.camera import CameraTable, Shown
from splat_cli.scene.images.downscale import downscale_photograph
from splat_cli.scene.images.image_set import ImageSet


class TrainingImages:
    """The table of training cameras, and what fills it with photographs.

    images: the photographs on the host, at full resolution. stream: loads photographs in the order of the steps, with
    a `budget` for fewer than all; else None.
    """

    def __init__(
        self, backend: Backend, images: ImageSet, order: np.ndarray, budget: ImageBudget | None = None,
        downscale: int = 1, batch: int = 1,
    ) -> None:  # fmt: skip
        self.backend, self.images, self.cameras = backend, images, CameraTable(backend, images.views)
        self.stream: ImageStreamer | None = None
        if budget is not None:
            self.stream = ImageStreamer(backend, self.cameras, images.images, images.masks, order, budget, batch)
        self._resident: dict[int, Shown] = {}
        self._downscale = 0  # nothing is shown yet
        self.set_downscale(downscale)

    def set_downscale(self, downscale: int) -> bool:
        """Show all views downscaled by this factor, between two steps; whether that was not so already.

        Photographs of one resolution are on the device at a time. MemoryError: to be repeated before the next step.
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
        self.backend.synchronize()  # steps are done that read the photographs of before
        self._resident.clear()
        upload = self.backend.upload
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            pairs = zip(self.images.images, self.images.masks, strict=True)
            downscaled = pool.map(lambda pair: downscale_photograph(pair[0], pair[1], downscale), pairs)
            for index, (photo, mask, num_pixels) in enumerate(downscaled):
                self._resident[index] = upload(photo), None if mask is None else upload(mask), num_pixels

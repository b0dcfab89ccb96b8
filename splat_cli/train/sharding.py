"""Division of training among ranks: what a trainer does together with the others, and how one GPU does it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from splat_cli.data.training_images import TrainingImages
from splat_cli.device import DeviceArray
from splat_cli.gaussians.splats import Splats
from splat_cli.model.columns import download_columns
from splat_cli.model.model import Model
from splat_cli.ranks.protocol import WHOLE, Share
from splat_cli.train.step import BatchStep, CapturedBatch, LocalBatch
from splat_cli.train.view_scores import LocalViews, ViewScorer


class Sharding(Protocol):
    """Division of training among ranks (train/multi_gpu/sharded.py), or one GPU (Unsharded).

    All ranks call the methods after `together` at the same points, within a method that `together` calls. share: the
    splats and photographs of this rank.
    """

    share: Share

    def connect(self, batch_step: BatchStep) -> CapturedBatch:
        """The captured batch of a trainer with this step; called once, before the methods below."""

    def scorer(self, batch_step: BatchStep, images: TrainingImages, rng: np.random.Generator) -> ViewScorer:
        """Scores the splats of all ranks."""

    @property
    def num_splats(self) -> int:
        """Number of splats of all ranks."""

    @property
    def capacity(self) -> int:
        """Number of splats of all ranks for which they have room."""

    def check(self) -> None:
        """RankError if a rank is lost."""

    def together(self, trainer: object, name: str, *arguments: Any) -> Any:
        """On rank 0: call this method of the trainers of all ranks; returns the result of rank 0.

        name: of a method of the trainer, or of one of its parts, such as "density.refine". The trainer is an argument,
        because references in a circle would keep its device memory.
        """

    def load(self, planes: Mapping[str, Any], rows: Sequence[tuple[str, int]], num: int, capacity: int) -> None:
        """Replace all splats by `num` others, with room for `capacity`.

        planes: on rank 0, rows [num] by names of planes, see Model.load_planes. rows: names and numbers of these rows;
        on several ranks, all other rows are zero.
        """

    def steps(self) -> AbstractContextManager[None]:
        """A block that runs training steps."""

    def all_or_none(self) -> AbstractContextManager[None]:
        """A block that allocates memory. If it runs out on one rank, all raise a MemoryError."""

    def allocate(self) -> None:
        """Allocate the buffers between ranks; in a block of `all_or_none`."""

    def total(self, number: int) -> int:
        """Sum of the numbers of all ranks."""

    def geometry(self) -> AbstractContextManager[Model]:
        """A model of all splats, without their colours if there are several ranks, for a block that changes it."""

    def copies(self) -> dict[str, DeviceArray]:
        """On rank 0, copies of the planes of all splats, see Model.planes; on the host if memory is short."""

    def splats(self) -> Splats | None:
        """All splats on the device of rank 0."""


class Unsharded(Sharding):
    """The sharding of a single GPU, which trains all splats and needs no communication."""

    share = WHOLE

    def connect(self, batch_step: BatchStep) -> LocalBatch:
        self._model = batch_step.model
        return LocalBatch(batch_step)

    def scorer(self, batch_step: BatchStep, images: TrainingImages, rng: np.random.Generator) -> ViewScorer:
        return ViewScorer(batch_step, LocalViews(batch_step, images), rng)

    @property
    def num_splats(self) -> int:
        return self._model.num

    @property
    def capacity(self) -> int:
        return self._model.splats.capacity

    def check(self) -> None:
        """There is no other rank."""

    def together(self, trainer: object, name: str, *arguments: Any) -> Any:
        return attrgetter(name)(trainer)(*arguments)

    def load(self, planes: Mapping[str, Any], rows: Sequence[tuple[str, int]], num: int, capacity: int) -> None:
        self._model.load_planes(dict(planes), capacity)

    def steps(self) -> AbstractContextManager[None]:
        return nullcontext()

    def all_or_none(self) -> AbstractContextManager[None]:
        return nullcontext()

    def allocate(self) -> None:
        """There are no buffers between ranks."""

    def total(self, number: int) -> int:
        return number

    @contextmanager
    def geometry(self) -> Iterator[Model]:
        yield self._model

    def copies(self) -> dict[str, DeviceArray]:
        model = self._model
        return {name: self._copy(planes, model.num - model.missing(name)) for name, planes in model.planes().items()}

    def _copy(self, planes: DeviceArray, num: int) -> DeviceArray:
        if self._model.on_device is None:
            with suppress(MemoryError):
                return planes[:, :num].copy()
        return download_columns(self._model.backend, planes, num)

    def splats(self) -> Splats:
        return self._model.splats

"""Pipelined views of a batch: the next one is prepared while one is rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from splat_cli.device import Backend
from splat_cli.render.iter_state import IterState, copy_view_state


class ViewPipeline:
    """Queues the preparation of a view (projection and tile lists) concurrently with the rendering of the one before.

    prepare: queues it, given the view and a state. select: makes the rasterizer use the view's buffers from now on. Two
    states alternate, and so must the buffers that `select` chooses. They overlap well: preparation occupies few threads
    and is limited by memory latency, blending by arithmetic.
    """

    def __init__(
        self,
        backend: Backend,
        state: IterState,
        prepare: Callable[[int, IterState], None],
        select: Callable[[int], None],
    ) -> None:
        self._backend, self._state, self._prepare, self._select = backend, state, prepare, select
        self._next = IterState(backend)

    def begin(self, view: int) -> None:
        """Queue the preparation of the first view."""
        self._prepare(view, self._state)

    @contextmanager
    def view(self, view: int, first: int, last: int) -> Iterator[None]:
        """Context for the rendering of `view`, which the state then describes. Enter it for first to last, in order.

        The first one has been prepared by `begin`.
        """
        if view > first:
            copy_view_state(self._next, self._state)
        join: Callable[[], None] | None = None
        if view < last:
            if view == first:
                copy_view_state(self._state, self._next)
            join = self._backend.branch(partial(self._prepare, view + 1, self._next))
        self._select(view)
        yield
        if join:
            join()

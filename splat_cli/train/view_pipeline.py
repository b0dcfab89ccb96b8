"""Views of a batch, each prepared while the one before is rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from splat_cli.device import Backend
from splat_cli.render.iter_state import IterState, copy_view_state


class ViewPipeline:
    """Queues the preparation of a view (its projected splats and tile lists) beside the rendering of the one before.

    prepare: queues it, given the view and a state. select: makes the rasterizer use the view's buffers from now on.
    Two states alternate, and so must the buffers that `select` chooses.
    Few of the device's threads prepare at a time, and wait for memory; blending waits for arithmetic.
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
        """Make `view` the state's view, prepared, for what the block queues. Call it for first to last, in order.

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

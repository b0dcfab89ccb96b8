"""Stages of a batch on several ranks: captured launches, with exchanges between and concurrent with them."""

from __future__ import annotations

import functools
from collections.abc import Callable

from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.ranked.ranked_views import RankedViews
from splat_cli.train.step import CapturedGraph


class Stages:
    """Replays a batch as CapturedGraph does.

    stages: functions that queue a batch, by name, in this order. launches: those of the captured stages.
    """

    def __init__(self, rasterizer: Rasterizer) -> None:
        self.launches, self.stages = dict[str, Callable[[], None]](), dict[str, Callable[[], object]]()
        self._rasterizer, self._graphs = rasterizer, list[CapturedGraph]()

    @property
    def current(self) -> bool:
        """See CapturedGraph.current."""
        return all(graph.current for graph in self._graphs)

    def run(self, count: int) -> None:
        """Queue `count` batches."""
        for _ in range(count):
            for queue in self.stages.values():
                queue()

    def capture(self, name: str, launch: Callable[[], None]) -> None:
        """Add a captured stage."""
        self.launches[name], self.stages[name] = launch, self._captured(launch)

    def queue_projections(
        self, views: RankedViews, count: int, begin: Callable[[], None], dropout: float = 0.0
    ) -> None:
        """Add the stages up to the tile lists of the rank's first of `count` views. begin: queues their choice.

        The first view of each rank comes first. While its splats are transferred, own ones are projected into it; while
        its tile lists are built, which leaves most of the device idle, those of all other views are projected and sent.
        """
        rounds = views.rounds(count)

        def project_others() -> None:
            begin()
            views.project(rounds[0], dropout, own=False)

        def project_own() -> None:
            views.project(rounds[0], dropout, own=True)

        def project_rest() -> None:
            for one in rounds[1:]:
                views.project(one, dropout, own=False)
                views.project(one, dropout, own=True)

        self.capture("project others", project_others)
        self.stages["send projections"] = lambda: views.exchange.begin_projections()
        self.capture("project own", project_own)
        self.stages["receive projections"] = views.ranks.end_exchanges
        if len(rounds) > 1:
            project = self._captured(project_rest)

            def send_rest() -> None:
                with views.ranks.exchange_stream():
                    project()
                    views.exchange.exchange_projections(range(1, len(rounds)))

            self.stages["send other projections"] = send_rest
        if views.num_own(count):
            self.capture("list tiles", views.list_first_tiles)
        if len(rounds) > 1:
            self.stages["receive other projections"] = views.ranks.end_exchanges

    def _captured(self, launch: Callable[[], None]) -> Callable[[], None]:
        self._graphs.append(CapturedGraph(self._rasterizer, launch))
        return functools.partial(self._graphs[-1].run, 1)

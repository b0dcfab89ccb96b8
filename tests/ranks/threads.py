"""Trainers of two ranks in threads of this process, on the CPU, with random photographs."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.ranks.protocol import RANK_BLOCK, Channel, RankError
from splat_cli.ranks.shared_memory import SharedRanks, make_shared_memory
from splat_cli.run.plan import resolve_plan
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.initial_splats import initial_splats
from splat_cli.train.multi_gpu.sharded import Sharded, leading
from splat_cli.train.trainer import Trainer, TrainingInputs
from tests.views import ring_of_views

NUM = 3 * RANK_BLOCK
SETTINGS = {
    "steps": 40,
    "batch": 2,
    "gpus": 2,
    "densify_start": 10,
    "densify_interval": 10,
    "max_splats": 8 * NUM,
    "splat_budget": 0,
    "growth_rate": 0.1,
    "sh_degree": 0,
    "deterministic": True,
}


@contextmanager
def trainers_of_two_ranks(**changes: Any) -> Iterator[tuple[Trainer, Trainer]]:
    """Trainers of ranks 0 and 1 for a `with` block; rank 1 follows."""

    def check() -> None:
        if has_ended.is_set():
            raise RankError("rank 0 has ended")

    def follow() -> None:
        with suppress(RankError):
            follower.follow(following)

    files, ends, has_ended = make_shared_memory(2), socket.socketpair(), threading.Event()
    channels = [Channel(rank, 2, [Connection(end.detach())], check) for rank, end in enumerate(ends)]
    ranks = [SharedRanks(channel, files) for channel in channels]
    views, rng = ring_of_views(4), np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (view.height, view.width, 3), dtype=np.uint8) for view in views]
    inputs = TrainingInputs(ImageSet(views, pictures, [None] * 4, []))
    config = resolve_plan(load_config(None, {**SETTINGS, **changes}), views).config
    points = rng.normal(0, 0.5, (NUM, 3)).astype(np.float32), rng.integers(0, 255, (NUM, 3), dtype=np.uint8)
    follower = Sharded(ranks[1])
    backends = [open_backend("cpu", threads=1) for _ in range(2)]
    splats = [initial_splats(backend, config, *points, np.random.default_rng(0))[0] for backend in backends]
    leader = leading(ranks[0], config, inputs.images.views, inputs.budget, inputs.points)
    assert ranks[1].next_message()[0] == "train"
    following = Trainer(backends[1], config, splats[1], inputs, sharding=follower)
    thread = threading.Thread(target=follow)
    thread.start()
    trainer = Trainer(backends[0], config, splats[0], inputs, sharding=leader)
    try:
        yield trainer, following
    finally:
        has_ended.set()
        ranks[0].close()
        thread.join()
        for file in files:
            os.close(file)

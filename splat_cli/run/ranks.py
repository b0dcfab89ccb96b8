"""Ranks of a run: options that work with them, and the processes of ranks 1, 2, ... (run/follower.py).

A process that has inherited links (ranks/links.py) does not start the others: they were started with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from splat_cli.config import TrainConfig
from splat_cli.config.combinations import single_gpu_options
from splat_cli.config.run import MAX_GPUS
from splat_cli.device import Backend
from splat_cli.device.cuda import visible_gpus
from splat_cli.errors import UsageError
from splat_cli.ranks.links import LinkedFollowers, inherited_links
from splat_cli.ranks.nccl import NcclRanks, why_no_nccl
from splat_cli.ranks.protocol import Channel, Ranks, SingleRank
from splat_cli.ranks.shared_memory import SharedRanks, make_shared_memory
from splat_cli.ranks.watch import Followers, RankWatch


def check_settings(config: TrainConfig) -> None:
    """UsageError if the settings do not work with --gpus."""
    if config.gpus == 1:
        return
    if options := single_gpu_options(config):
        raise UsageError(f"--gpus {config.gpus} does not work with {options[0]}: leave out one of them")
    if config.batch_size % config.gpus:
        raise UsageError(
            f"--batch {config.batch_size} is not a multiple of --gpus {config.gpus}: all GPUs render equally many views"
        )


def check_ranks(config: TrainConfig, backend: Backend) -> None:
    """UsageError if the settings do not work with --gpus, or the machine has too few GPUs."""
    check_settings(config)
    if config.gpus == 1:
        return
    if sys.platform != "linux":
        raise UsageError(f"--gpus {config.gpus} needs Linux, this is {sys.platform}")
    if backend.name == "cuda":
        count = _num_visible(backend)
        if count < config.gpus and inherited_links() is None:
            raise UsageError(
                f"--gpus {config.gpus}: this process sees {count} (nvidia-smi, CUDA_VISIBLE_DEVICES); give at most "
                f"{count}; leave --gpus out in a batch, where each scene has one GPU"
            )
        if reason := why_no_nccl():
            raise UsageError(f"--gpus {config.gpus} needs NCCL: {reason}")


def rank_counts(config: TrainConfig) -> list[int]:
    """Numbers of GPUs, descending, that give the same result as one GPU; 1 is left out.

    config: the settings for one GPU, whose batch size must be given.
    """
    if single_gpu_options(config):
        return []
    return [size for size in range(min(config.batch_size, MAX_GPUS), 1, -1) if config.batch_size % size == 0]


@contextmanager
def started_ranks(config: TrainConfig, backend: Backend) -> Iterator[Ranks]:
    """Context with the ranks of the settings: this process is rank 0; the others are started and compile kernels."""
    check_ranks(config, backend)
    if config.gpus == 1:
        yield SingleRank()
        return
    followers, files = _followers(config.gpus, backend)
    try:
        channel = Channel(0, config.gpus, followers.connections, followers.check)
        channel.broadcast(config, backend.name)
        ranks = make_ranks(channel, backend, files)
        if isinstance(ranks, NcclRanks):
            followers.on_lost, followers.is_waiting = ranks.abort, ranks.is_waiting
        try:
            yield ranks
        except RuntimeError:  # from CuPy; a lost rank may have left an exchange unfinished
            channel.wait_for_loss()
            raise
        finally:
            ranks.close()  # close before the others end: NCCL would wait for them
    finally:
        _end(followers, files)


_ahead: list[tuple[int, RankWatch, list[int]]] = []
"""(number of ranks, their processes, files of shared memory) that wait for `started_ranks`."""


@contextmanager
def followers_ahead(size: int, backend: Backend) -> Iterator[None]:
    """Start the processes of the other ranks, which import modules and open their devices during other work.

    `started_ranks` uses them within the context. One rank needs none; where ranks do not work, `check_ranks` tells why.
    """
    is_needed = size > 1 and sys.platform == "linux" and not inherited_links()
    is_needed = is_needed and (backend.name != "cuda" or size <= _num_visible(backend))
    started = (size, *_start(size, backend)) if is_needed else None
    if started:
        _ahead.append(started)
    try:
        yield
    finally:
        if started in _ahead:
            _ahead.remove(started)
            _end(*started[1:])


def _num_visible(backend: Backend) -> int:
    return int(backend.xp.cuda.runtime.getDeviceCount())


def _followers(size: int, backend: Backend) -> tuple[RankWatch, list[int]]:
    """The processes of the other ranks, and on the CPU the files of their shared memory."""
    if links := inherited_links():
        return LinkedFollowers(links), list(links.files)
    for started in _ahead:
        if started[0] == size:
            _ahead.remove(started)
            return started[1:]
    return _start(size, backend)


def _start(size: int, backend: Backend) -> tuple[RankWatch, list[int]]:
    is_cuda = backend.name == "cuda"
    files = [] if is_cuda else make_shared_memory(size)
    environments = [{"CUDA_VISIBLE_DEVICES": device} for device in visible_gpus(size)[1:size]] if is_cuda else []
    return Followers("splat_cli.run.follower", size, environments, files), files


def _end(followers: RankWatch, files: list[int]) -> None:
    followers.close()
    for file in files:
        os.close(file)


def make_ranks(channel: Channel, backend: Backend, files: list[int]) -> Ranks:
    """Ranks over NCCL, or on the CPU over shared memory. All ranks call it."""
    return NcclRanks(channel, getattr(backend, "stream")) if backend.name == "cuda" else SharedRanks(channel, files)  # noqa: B009

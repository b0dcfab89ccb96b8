"""The process of rank 1, 2, ...: `python -m splat_cli.run.follower SOCKET RANK SIZE FILES...`."""

from __future__ import annotations

import dataclasses
import io
import sys
from multiprocessing.connection import Connection

from splat_cli.data.training_images import own_views
from splat_cli.device import open_backend
from splat_cli.errors import DeviceError, SplatError, one_line
from splat_cli.ranks.protocol import OUT_OF_MEMORY_ADVICE, Channel, RankError, Share
from splat_cli.ranks.watch import Heartbeat
from splat_cli.run.device import open_device, prepare_kernels
from splat_cli.run.ranks import make_ranks
from splat_cli.run.setup.initial_state import placeholder_splats
from splat_cli.run.setup.training_data import load_part
from splat_cli.terminal.console import Display
from splat_cli.train.multi_gpu.sharded import Sharded
from splat_cli.train.trainer import Trainer, TrainingInputs


def main(arguments: list[str]) -> None:
    """Entry point: execute the commands of rank 0 until it ends; report a failure to it. arguments: see above."""
    heartbeat = Heartbeat()
    socket, rank, size, *files = map(int, arguments)
    try:
        _follow(Channel(rank, size, [Connection(socket)]), files)
    except RankError:
        pass  # rank 0 has ended
    except MemoryError:
        heartbeat.fail(f"out of device memory: {OUT_OF_MEMORY_ADVICE}")
        sys.exit(1)
    except Exception as error:
        reason = str(error) if isinstance(error, SplatError) else f"{type(error).__name__}: {one_line(error)}"
        heartbeat.fail(reason, of_device=isinstance(error, (DeviceError, RuntimeError)))  # CuPy raises RuntimeErrors
        sys.exit(1)


def _follow(channel: Channel, files: list[int]) -> None:
    if not files:  # on GPUs, this takes a second: the processes may be started ahead of their first message
        open_backend()
    requested, device = channel.next_message()
    display = Display(io.StringIO())  # only rank 0 prints
    backend = open_device(device, requested, display)
    ranks = make_ranks(channel, backend, files)
    prepare_kernels(backend, requested)
    _, config, views, budget, points = ranks.next_message()
    prepare_kernels(backend, dataclasses.replace(requested, batch=config.batch))  # unknown until rank 0 had a plan
    own = own_views(len(views), config.batch_size, Share(ranks.rank, ranks.size))
    images = load_part(views, own, requested, backend, display, lazily=budget is not None)
    splats = placeholder_splats(images, 8)
    sharding = Sharded(ranks)
    sharding.follow(Trainer(backend, config, splats, TrainingInputs(images, budget, points), sharding=sharding))


if __name__ == "__main__":
    main(sys.argv[1:])

"""The process of rank 1, 2, ...: `python -m splat_cli.run.follower SOCKET RANK SIZE FILES...`."""

from __future__ import annotations

import io
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from splat_cli.console import Display
from splat_cli.errors import DeviceError, SplatError, one_line
from splat_cli.ranks.channel import Channel
from splat_cli.ranks.followers import MAY_HELP_TO_RESTART, Lifeline
from splat_cli.ranks.protocol import RankError
from splat_cli.run.device import open_device, prepare_kernels
from splat_cli.run.ranks import make_ranks
from splat_cli.run.setup.initial_state import placeholder_state
from splat_cli.run.setup.training_data import read_data
from splat_cli.train.initialization import initial_splats
from splat_cli.train.ranked_trainer import FollowingTrainer


def main(arguments: list[str]) -> None:
    """Train what rank 0 tells, until it leaves or something fails, which rank 0 is told."""
    lifeline = Lifeline()
    socket, rank, size, *files = map(int, arguments)
    try:
        _follow(Channel(rank, size, [Connection(socket)]), files)
    except RankError:
        pass  # rank 0 has left
    except MemoryError:
        lifeline.fail("out of device memory: use --max-splats or a larger --downscale")
        sys.exit(1)
    except Exception as error:
        lifeline.fail(str(error) if isinstance(error, SplatError) else f"{type(error).__name__}: {one_line(error)}")
        sys.exit(MAY_HELP_TO_RESTART if isinstance(error, (DeviceError, RuntimeError)) else 1)  # CuPy's: RuntimeErrors


def _follow(channel: Channel, files: list[int]) -> None:
    scene_path, config, device = channel.listen()
    display = Display(io.StringIO())  # rank 0 tells the user
    backend = open_device(device, config, display)
    ranks = make_ranks(channel, backend, files)
    prepare_kernels(backend, config)
    data = read_data(Path(scene_path), config, backend, display)
    _, config = ranks.listen()
    points = placeholder_state(data.training, 8).points
    splats, _ = initial_splats(backend, config, *points, np.random.default_rng(0))
    FollowingTrainer(ranks, backend, config, splats, data.training, budget=data.budget).follow()


if __name__ == "__main__":
    main(sys.argv[1:])

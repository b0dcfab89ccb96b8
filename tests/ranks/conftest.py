"""Fixtures of runs on several ranks."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from splat_cli.ranks import watch
from splat_cli.train import density_control
from tests.ranks.runs import train
from tests.subprocesses import HANG
from tests.training import Trained


@contextmanager
def _frequent_sorts() -> Iterator[None]:
    """Splats are sorted every 16 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density_control, "SORT_INTERVAL", 16)
        yield


@pytest.fixture(scope="module", autouse=True)
def sorts():
    with _frequent_sorts():
        yield


@pytest.fixture(scope="session")
def alone(scene, tmp_path_factory):
    """The run on one rank. Read only."""
    with _frequent_sorts():
        return train(Trained(scene), tmp_path_factory.mktemp("runs") / "alone", gpus=1)


@pytest.fixture(autouse=True)
def grace(monkeypatch):
    """Never end rank 0 because it is slow: it is this process."""
    monkeypatch.setattr(watch, "_GRACE", 2 * HANG)

"""Fixtures of runs on several ranks."""

import pytest

from splat_cli.train import density_control
from tests.ranks.runs import train
from tests.training import Trained


@pytest.fixture(scope="package", autouse=True)
def sorts():
    """Splats are sorted every 16 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(density_control, "SORT_INTERVAL", 16)
        yield


@pytest.fixture(scope="package")
def alone(scene, tmp_path_factory):
    """The run on one rank. Not to be changed."""
    return train(Trained(scene), tmp_path_factory.mktemp("runs") / "alone", gpus=1)

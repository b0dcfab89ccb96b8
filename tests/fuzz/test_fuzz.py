"""A bounded number of damaged inputs for every reader; `python -m tests.fuzz` runs more."""

import pytest

from tests.fuzz.attack import attack
from tests.fuzz.readers import TARGETS

COUNT = 60


@pytest.mark.parametrize("target", [pytest.param(target, id=target.name) for target in TARGETS])
def test_damaged_input_is_read_or_refused(target, tmp_path):
    folder = tmp_path / "input"
    folder.mkdir()
    outcome = attack(target, folder, COUNT, seed=0, measure_memory=True)
    assert outcome.read + outcome.refused == round(target.share * COUNT)

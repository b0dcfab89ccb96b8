"""Large files made to use much memory stay below the limits of SECURITY.md; `python -m tests.fuzz.large` tests more."""

import pytest

from tests.fuzz.large import measure

WORST = (
    "spz",
    "sog",
    "points.ply, uchar",
    "cameras.txt, one line",
    "images.txt",
    "points3D.txt, one line",
    "images.bin",
    "transforms.json, lists",
    "metrics.json",
    "train.jsonl",
    "split.txt",
    "model.zip, members",
    "field.npz, members",
    "cameras.xml",
    "registration.csv",
    "bundle.out",
)


@pytest.mark.parametrize("name", WORST)
def test_memory_of_a_large_file_is_bounded(name):
    found = measure(name, megabytes=8)
    assert found.is_within_limits, found

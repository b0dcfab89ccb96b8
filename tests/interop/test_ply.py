"""Standard PLY files, exchanged with an independent program: every value survives, to the bit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import plyfile
import pytest

from splat_cli.gaussians.ply import read_ply, write_ply
from tests.gaussians.some_splats import some_splats

Program = Callable[..., None]


@pytest.mark.parametrize("degree", range(4))
def test_it_reads_our_files(splat_transform: Program, tmp_path: Path, degree: int) -> None:
    """All columns of its printed table."""
    write_ply(tmp_path / "ours.ply", some_splats(500, degree))
    splat_transform(tmp_path / "ours.ply", tmp_path / "theirs.csv")
    with (tmp_path / "theirs.csv").open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        table = np.loadtxt(file, delimiter=",").astype(np.float32)
    vertices = plyfile.PlyData.read(str(tmp_path / "ours.ply"))["vertex"]
    assert set(names) >= {item.name for item in vertices.properties} - {"nx", "ny", "nz"}
    for name, column in zip(names, table.T, strict=True):
        np.testing.assert_array_equal(column, vertices[name], err_msg=name)


@pytest.mark.parametrize("degree", range(4))
def test_we_read_its_files(splat_transform: Program, tmp_path: Path, degree: int) -> None:
    splats = some_splats(500, degree)
    write_ply(tmp_path / "ours.ply", splats)
    splat_transform(tmp_path / "ours.ply", tmp_path / "theirs.ply")
    theirs = read_ply(tmp_path / "theirs.ply")
    for name, array in splats.arrays().items():
        np.testing.assert_array_equal(getattr(theirs, name), array, err_msg=name)

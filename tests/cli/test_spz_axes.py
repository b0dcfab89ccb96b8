"""Commands read .spz files in the axes that the file states, otherwise in --spz-axes (default: RUB)."""

import json

import numpy as np
import pytest
from PIL import Image

from splat_cli.config import TrainConfig
from splat_cli.gaussians.formats import write_splats
from splat_cli.run.plan import resolve_plan
from splat_cli.terminal.console import Display, Level
from splat_cli.train.initial_splats import frozen_splats, initial_splats
from splat_cli.viewer.splat_source import open_source
from tests.gaussians.formats.spz_files import write_unstated_rdf
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views

CPU = ("--device", "cpu")
RDF = ("--spz-axes", "rdf")


@pytest.fixture
def files(tmp_path):
    """(RUB file, [the same splats in RDF: file and options, with stated and unstated axes]), in the working folder."""
    folder, splats = tmp_path / "cwd", some_splats(40, 1)
    folder.mkdir(exist_ok=True)
    write_splats(folder / "rub.spz", splats)
    write_splats(folder / "stated.spz", splats, spz_axes="RDF")
    write_unstated_rdf(folder / "unstated.spz", splats)
    return folder / "rub.spz", [(folder / "stated.spz", ()), (folder / "unstated.spz", RDF)]


def test_render(splat, files):
    rub, others = files
    assert splat("render", rub, "-o", "rub", "--path", "orbit", "--frames", 2, "--size", "32x24", *CPU).code == 0
    expected = _pictures(rub.parent / "rub")
    for file, options in others:
        result = splat("render", file, "-o", "out", "--path", "orbit", "--frames", 2, "--size", "32x24", *CPU, *options)
        assert result.code == 0, result.err
        np.testing.assert_allclose(_pictures(rub.parent / "out"), expected, atol=2)  # rotations are rounded
    again = splat("render", file, "-o", "out", "--path", "orbit", "--frames", 2, "--size", "32x24", *CPU)
    assert "up to date" not in again.out  # pictures with other axes are rendered again
    assert np.abs(_pictures(rub.parent / "out") - expected.astype(int)).max() > 20


def _pictures(folder):
    return np.stack([np.asarray(Image.open(folder / f"{i:05d}.png")) for i in range(2)])


def test_info(splat, files):
    rub, others = files
    expected = json.loads(splat("info", rub, "--json").out)
    assert expected["axes"] == "RUB, as the file states"
    for file, options in others:
        found = json.loads(splat("info", file, "--json", *options).out)
        assert {**found, "file": "", "axes": ""} == {**expected, "file": "", "axes": ""}
    assert splat("info", file).out.count("not stated, read as RUB: see --spz-axes") == 1
    assert splat("info", others[0][0]).out.count("RDF, as the file states") == 1


def test_view(backend, files):
    (rub, others), display = files, Display(level=Level.QUIET)
    expected = open_source(rub, backend, display).splats
    for file, options in others:
        found = open_source(file, backend, display, options[1].upper() if options else "RUB").splats
        np.testing.assert_array_equal(_means(found), _means(expected))


def _means(splats):
    return splats.to_arrays().means


def test_train(backend, files):
    rub, others = files
    expected = _starts(backend, rub)
    for file, options in others:
        for found, start in zip(_starts(backend, file, *options[1:]), expected, strict=True):
            np.testing.assert_array_equal(found.means, start.means)


def _starts(backend, file, spz_axes="rub"):
    """Files of --init-from and --frozen."""
    starting, frozen = (TrainConfig(spz_axes=spz_axes, **{name: str(file)}) for name in ("init_from", "frozen"))
    plan = resolve_plan(starting, ring_of_views(4))
    none = np.empty((0, 3))
    initial, _ = initial_splats(
        backend, plan.config, none.astype("float32"), none.astype("uint8"), np.random.default_rng()
    )
    return initial, frozen_splats(frozen, (0.0, 0.0, 0.0), print)


@pytest.mark.parametrize("command", [("info",), ("view",), ("render", "--path")])
def test_axes_of_another_format(splat, trained, command):
    refused = splat(command[0], trained, *command[1:], *RDF)
    assert (refused.code, refused.err.count("axes of .spz files: leave it out for")) == (2, 1), refused.err

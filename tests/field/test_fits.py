"""scripts/figures/fit_image.py and scripts/figures/fit_sphere.py with few steps."""

import json
import sys

import numpy as np
import pytest
from PIL import Image
from plyfile import PlyData

from tests.subprocesses import ROOT, environment, finished

pytest.importorskip("matplotlib", reason="the extra `plots`")


def fit(script, out, *options):
    command = [sys.executable, ROOT / "scripts" / "figures" / f"{script}.py", "--out", out, "--device", "cpu", *options]
    done = finished(command, env=environment(MPLBACKEND="agg", MPLCONFIGDIR=out))
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((out / "curves.json").read_text())


def width(path):
    with Image.open(path) as image:
        return image.width


@pytest.mark.parametrize("settings", ["source", "ours"])
def test_fit_image(tmp_path, settings):
    sizes = ["--steps", "12", "--size", "16", "--batch", "256", "--table-size", "256"]
    printed, fits = fit("fit_image", tmp_path, "--settings", settings, *sizes)
    assert "optimiser of training" in printed
    assert "encoding of inference" in printed
    encodings = ["hash encoding", "frequencies", "no encoding"]
    assert list(fits) == [f"{e}, {optimiser}" for optimiser in ("Adam", "gradient descent") for e in encodings]
    assert all([step for step, _ in found["curve"]] == [1, 10, 12] for found in fits.values())
    assert np.isfinite([psnr for found in fits.values() for _, psnr in found["curve"]]).all()
    assert fits["hash encoding, Adam"]["curve"][-1][1] > fits["hash encoding, Adam"]["curve"][0][1] + 1
    assert all(width(tmp_path / f"{name}.png") > 100 for name in ("strips", "curves"))


def test_fit_sphere(tmp_path):
    _, fits = fit("fit_sphere", tmp_path, "--settings", "ours", "--steps", "30", "--batch", "256", "--points", "200")
    assert list(fits) == ["spherical harmonics", "frequencies", "no encoding"]
    assert fits["spherical harmonics"]["curve"][-1][1] < 0.05
    ply = PlyData.read(str(tmp_path / "sphere.ply"))
    assert ply.comments == ["surface 0: truth", *(f"surface {k}: {name}" for k, name in enumerate(fits, 1))]
    vertices = ply["vertex"]
    for k in range(4):
        on = vertices["surface"] == k
        lengths = np.linalg.norm([vertices["x"][on] - 4 * k, vertices["y"][on], vertices["z"][on]], axis=0)
        np.testing.assert_allclose(lengths, 1 + 0.4 * vertices["value"][on], atol=1e-5)
    assert all(width(tmp_path / f"{name}.png") > 100 for name in ("sphere", "curves"))

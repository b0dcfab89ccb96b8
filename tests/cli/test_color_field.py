"""Runs with a colour field from the command line: saved files, rendering, export, evaluation."""

import json

import numpy as np
import pytest
from PIL import Image

from splat_cli.cli.main import run
from splat_cli.gaussians.ply import read_ply
from splat_cli.run.storage.run_dir import RunDir

CPU = ("--device", "cpu")


@pytest.fixture(scope="module")
def field_run(scene, tmp_path_factory):
    """A run of 60 steps with appearance embeddings and two held-out photographs. Do not modify."""
    out = tmp_path_factory.mktemp("field") / "toy"
    options = ["--color", "field", "--field-appearance", "2", "--field-table-size", "1024", "--lr-field", "0.05"]
    options += ["--field-features", "2", "--field-sh-degree", "1", "--sh-degree-interval", "1"]
    options += ["--eval", "--steps", "60", "--no-report", "--keep", "0", "--deterministic", *CPU]
    assert run(["train", str(scene), "-o", str(out), *options]) == 0
    return out


def pixels(folder):
    return [np.asarray(Image.open(path), float) for path in sorted(folder.glob("*.png"))]


def difference(one, other):
    return np.abs(one - other).mean()


def test_run_saves_the_field_beside_a_baked_ply(splat, field_run):
    ply = RunDir(field_run).ply_path(60)
    assert read_ply(ply).sh_degree == 3
    assert ply.with_name("field.npz").is_file()
    described = splat("info", field_run).out
    assert "appearances of 7 photographs; it is baked into the PLY" in described
    assert "only right halves" in json.loads((field_run / "metrics.json").read_text())["protocol"]


def test_render_with_the_appearance_of_a_photograph(splat, field_run, tmp_path):
    looks = {}
    for name in ("mean", "a_01.jpg", "a_05.jpg"):
        result = splat("render", field_run, "--views", "test", "--appearance", name, "-o", tmp_path / name, *CPU)
        assert result.code == 0, result.err
        looks[name] = pixels(tmp_path / name)
    assert difference(looks["a_01.jpg"][0], looks["a_05.jpg"][0]) > 0.05


def test_path_blends_two_appearances(splat, field_run, tmp_path):
    def frames(appearance, out):
        path = ("--path", "orbit", "--frames", 3, "--appearance", appearance, "-o", tmp_path / out)
        assert splat("render", field_run, *path, *CPU).code == 0
        return pixels(tmp_path / out)

    first, last, both = frames("a_01.jpg", "a"), frames("a_05.jpg", "b"), frames("a_01.jpg,a_05.jpg", "ab")
    np.testing.assert_array_equal(both[0], first[0])
    np.testing.assert_array_equal(both[2], last[2])
    assert difference(both[1], first[1]) + difference(both[1], last[1]) > 0
    again = splat(
        "render", field_run, "--path", "orbit", "--frames", 3, "--appearance", "mean", "-o", tmp_path / "ab", *CPU
    )
    assert "were up to date" not in again.out  # frames of another appearance are rendered again


def test_export_bakes_an_appearance_at_a_degree(splat, field_run, tmp_path):
    colors = []
    for name in ("a_01.jpg", "a_05.jpg"):
        result = splat("export", field_run, tmp_path / "out.ply", "--appearance", name, "--sh-degree", 1, "--no-bake")
        assert result.code == 0, result.err
        assert "its colour field is baked into harmonics of degree 1, with an error of 0.0" in result.out
        splats = read_ply(tmp_path / "out.ply")
        assert splats.sh_degree == 1
        colors.append(splats.sh0)
    assert np.abs(colors[0] - colors[1]).max() > 1e-3


def test_eval_uses_the_field_of_a_run_and_the_baked_splats_of_a_ply(splat, field_run):
    run = RunDir(field_run)
    own, baked = (splat("eval", source, "--json", *CPU) for source in (field_run, run.ply_path(60)))
    psnr = json.loads(own.out)["psnr"]
    assert abs(psnr - json.loads(baked.out)["psnr"]) > 1e-3
    assert json.loads(baked.out)["path"] is None
    assert "for the splats into which the colour field is baked: they are printed only" in baked.err
    assert run.metrics()["steps"]["60"]["psnr"] == psnr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("render", "FIELD", "--appearance", "b.jpg"),
            "appearance b.jpg: expected mean or a training photograph such as",
        ),
        (("render", "FIELD", "--appearance", "a_01.jpg,a_02.jpg,mean"), "expected one photograph's name, or two"),
        (("render", "PLAIN", "--appearance", "mean"), "only runs with --color field have appearances"),
        (("export", "PLAIN", "out.ply", "--appearance", "mean"), "is not a run with --color field"),
        (("train", "SCENE", "--field-appearance", "65"), "expected a whole number, 0 to 64"),
    ],
)
def test_wrong_appearances_are_refused(splat, field_run, trained, scene, arguments, message):
    places = {"FIELD": field_run, "PLAIN": trained, "SCENE": scene}
    result = splat(*(places.get(one, one) for one in arguments))
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1

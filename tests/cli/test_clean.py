"""`splat clean`: what it writes for runs and files, and what it leaves alone."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.commands import clean
from splat_cli.commands.clean import outside_view
from splat_cli.eval.cleaning import Reason
from splat_cli.eval.metrics import Score
from splat_cli.gaussians.arrays import SH_C0
from splat_cli.gaussians.formats import read_splats, write_splats
from splat_cli.gaussians.ply import read_ply
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.terminal.console import Display
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views

CPU = ("--device", "cpu", "--json")
REASONS = [reason.name.lower() for reason in Reason if reason != Reason.NONE]


@pytest.fixture
def stray(trained, tmp_path):
    """A file of the run's splats, and one far away from them, which is first."""
    splats = read_ply(RunDir(trained).ply_path(20))
    splats.means[0] = (30, 0, 0)
    splats.log_scales[0] = np.log(0.01)
    path = tmp_path / "stray.spz"
    write_splats(path, splats)
    return path


def test_a_run_is_cleaned_beside_its_splats(splat, run_copy):
    before = {path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file()}
    result = splat("clean", run_copy, *CPU, "--strength", "3")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    gone = sum(found[name] for name in REASONS)
    assert 0 < gone < found["num_splats"]
    assert Path(found["file"]) == run_copy / "cleaned.ply"
    assert len(read_ply(run_copy / "cleaned.ply")) == found["num_splats"] - gone
    assert abs(found["psnr"] - found["psnr_before"]) < 1
    with Image.open(found["picture"]) as picture:
        assert picture.size == (3 * 960, 720)
    after = {path: path.read_bytes() for path in run_copy.rglob("*") if path.is_file() and path.stem != "cleaned"}
    assert after == before


def test_loss_due_to_floaters_is_measured_on_many_photographs(monkeypatch, trained, open_device):
    """A veil may cost few photographs much, and the others nothing."""
    views, measured = [dataclasses.replace(view, name=f"{i}") for i, view in enumerate(ring_of_views(100))], []
    images = ImageSet(views, [np.zeros((2, 2, 3), np.uint8)] * 100, [None] * 100, [])
    monkeypatch.setattr(clean, "load_run_images", lambda *arguments: images)
    monkeypatch.setattr(clean, "evaluate", lambda model, some, config: measured.extend(some.views) or {"": Score(9, 1)})
    run, backend = RunDir(trained), open_device("cpu")
    clean._photographed(run, None, backend, Display()).psnr(read_ply(run.ply_path(20)))
    numbers = [int(view.name) for view in measured]
    assert len(numbers) == 32
    assert max(np.diff(numbers)) <= 4  # all over the scene


def test_a_file_is_judged_by_shape_alone(splat, stray):
    text = splat("clean", stray, "--device", "cpu").out
    assert f"{stray} is not in a run: judged by shape alone" in text
    cleaned = read_splats(stray.with_name("stray-cleaned.spz"))
    assert np.abs(cleaned.means).max() < 20
    assert len(cleaned) > 0.9 * len(read_splats(stray))


def test_preview_shows_removed_splats_and_writes_nothing_else(splat, stray):
    found = json.loads(splat("clean", stray, "--preview", "all.ply", *CPU).out)
    shown = read_ply(Path("all.ply"))
    is_magenta = np.isclose(shown.sh0, np.array([0.5, -0.5, 0.5]) / SH_C0).all(axis=1)
    assert len(shown) == found["num_splats"]
    assert is_magenta.sum() == sum(found[name] for name in REASONS)
    assert is_magenta[np.argmax(shown.means[:, 0])]
    assert (shown.logit_opacities[is_magenta] >= 0).all()
    assert sorted(path.name for path in stray.parent.glob("stray*")) == ["stray.spz"]
    assert splat("clean", stray, "--preview", "all.html", *CPU).code == 0
    assert Path("all.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("crop", [None, "0,0,0,0.7"])
def test_export_removes_the_same(splat, run_copy, crop):
    """Splats are judged before those outside of the run's crop are left out."""
    config = run_copy / "config.toml"
    config.write_text(config.read_text().replace("# crop is not set", f'crop = "{crop}"' if crop else ""))
    found = json.loads(splat("clean", run_copy, *CPU, "--strength", "3").out)
    assert splat("export", run_copy, "a.ply", "--clean", "3", "--no-bake").code == 0
    stay = found["num_splats"] - sum(found[name] for name in REASONS)
    assert 0 < len(read_ply(Path("a.ply"))) < stay if crop else len(read_ply(Path("a.ply"))) == stay
    np.testing.assert_array_equal(read_ply(Path("a.ply")).means, read_ply(Path(found["file"])).means)


def test_without_the_scene_the_views_still_count(splat, run_copy, tmp_path):
    (tmp_path / "empty").mkdir()
    result = splat("clean", run_copy, "--scene", tmp_path / "empty", *CPU)
    assert result.code == 0, result.err
    assert "not looking for floaters in front of what photographs show" in result.err
    assert "psnr" not in json.loads(result.out)


def test_sources_and_photographs_are_not_overwritten(splat, run_copy, stray):
    ply = RunDir(run_copy).ply_path(20)
    Image.new("RGB", (4, 4)).save(stray.parent / "garden.png")
    for arguments, message in (
        ((run_copy, "-o", ply), "is a file of the run"),
        ((stray, "-o", stray), "is the source, which stays"),
        ((stray, "--preview", stray), "is the source, which stays"),
        ((stray, "--preview", "all.ply", "-o", "cleaned.ply"), "--preview writes only the preview"),
        ((stray, "-o", stray.parent), "is a folder"),
        ((stray, "-o", stray.parent / "garden.ply"), "was not written by splat"),
        ((stray, "-o", "a.html"), "is not a name for a file of splats"),
        ((stray, "--strength", "0"), "0"),
    ):
        result = splat("clean", *arguments, "--device", "cpu")
        assert (result.code, message in result.err) == (2, True), result.err


def test_nothing_left_is_an_error(splat, stray):
    lone = read_splats(stray).select(slice(2))
    write_splats(stray.with_name("two.ply"), dataclasses.replace(lone, logit_opacities=np.full(2, -9, np.float32)))
    result = splat("clean", stray.with_name("two.ply"), "--device", "cpu")
    assert (result.code, "none of the 2 splats would be left: lower --strength" in result.err) == (2, True)


def test_the_outside_view_sees_all_cameras():
    """Also if all cameras are above the middle, where there is no way back."""
    views = ring_of_views(12)
    means = np.random.default_rng(0).normal(0, 0.5, (200, 3)).astype(np.float32)
    view = outside_view(views, means)
    centers = np.array([one.center for one in views])
    assert view.project(centers)[2].all()
    assert np.linalg.norm(view.center) > 1.5 * np.linalg.norm(centers, axis=1).max()
    assert np.isfinite(outside_view(views[:1], means[:0] + np.float32(0)).w2c).all()


def test_losses_of_the_format_are_named(splat, tmp_path):
    origin = (500000.0, 5400000.0, 0.0)
    write_splats(tmp_path / "a.ply", dataclasses.replace(some_splats(300, 3), antialiased=True, origin=origin))
    said = splat("clean", tmp_path / "a.ply", "-o", tmp_path / "b.splat", "--device", "cpu").out
    for note in ("relative to 500000, 5400000, 0", "view-dependent colours", "trained with --antialias"):
        assert note in said
    assert "axes right, up, back" in splat("clean", tmp_path / "a.ply", "-o", tmp_path / "b.spz", "--device", "cpu").out

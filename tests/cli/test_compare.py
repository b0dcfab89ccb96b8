"""`splat compare`: a table and a page of runs on the same held-out photographs; other runs are refused by name."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat_cli.config.presets import load_config
from splat_cli.run.device import open_device
from splat_cli.run.storage.find_run import new_locked_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.terminal.console import Display
from tests.small_scene import write_small_scene


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of a scene by name. Do not modify."""
    folder = tmp_path_factory.mktemp("compared")
    scene = write_small_scene(folder / "scene")
    other = {"steps": 20, "eval": True, "test_every": 3, "save_at": ()}
    settings = {
        "short": {**other, "steps": 10},
        "long": {**other, "steps": 60},
        "other-split": {**other, "test_every": 4},
        "small": {**other, "downscale": 2},
        "all": {**other, "eval": False},
    }
    for name, values in settings.items():
        config = load_config(None, values)
        with new_locked_run(folder / name) as run:
            train_scene(scene, run, config, open_device("cpu", config, Display()), Display())
    return {name: folder / name for name in settings}


def test_table_has_the_scores_of_each_run(splat, runs):
    result = splat("compare", runs["short"], runs["long"], "--no-page", "--device", "cpu", "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)["runs"]
    for row, name in zip(rows, ("short", "long"), strict=True):
        scored = RunDir(runs[name]).metrics()["steps"][str(row_steps(runs[name]))]
        assert row["psnr"] == pytest.approx(scored["psnr"], abs=1e-6)
        assert row["per_image"].keys() == scored["per_image"].keys()
    assert rows[1]["psnr"] > rows[0]["psnr"]


def row_steps(path):
    return RunDir(path).config().steps


def test_best_run_of_each_photograph_is_counted(splat, runs):
    text = splat("compare", runs["short"], runs["long"], "--no-page", "--device", "cpu").out
    counts = [re.search(rf"^{name} .* (\d+) of 3 ", text, re.MULTILINE)[1] for name in ("short", "long")]
    assert sorted(map(int, counts)) == [0, 3]


def test_lpips_is_a_column_of_table_and_page(splat, runs, monkeypatch):
    class Distance:
        def __init__(self, network):
            assert network == "alex"

        def score(self, render, photograph, mask):
            return 0.125

    monkeypatch.setattr("splat_cli.commands.compare.Lpips", Distance)
    result = splat("compare", runs["short"], runs["long"], "--lpips", "alex", "-o", "lpips.html", "--device", "cpu")
    assert result.code == 0, result.err
    assert result.out.count("  0.1250") == 2
    source = Path("lpips.html").read_text()
    assert source.count("<th>LPIPS</th>") == 1
    assert source.count("<td>0.1250</td>") == 2


def test_page_holds_all_renders_and_can_be_written_again(splat, runs):
    for _ in range(2):
        result = splat("compare", runs["short"], runs["long"], "-o", "page.html", "--device", "cpu")
        assert result.code == 0, result.err
    source = Path("page.html").read_text()
    assert source.count('class="stage compared"') == 3
    assert source.count("<img ") == 3 * 3  # photograph and two renders of each view
    assert not re.findall(r'(?:src|href)="(?!data:)', source)
    long = RunDir(runs["long"]).metrics()["steps"]["60"]
    lead = long["psnr"] - RunDir(runs["short"]).metrics()["steps"]["10"]["psnr"]
    assert f"<b>long</b> is closest to the photographs: its PSNR is {lead:.2f} dB above short." in source
    best = {name: f"<td><b>{long[name]:.4f}</b></td>" in source for name in ("ssim", "flip") if name in long}
    assert all(best.values()), "the better run has the higher SSIM and the lower FLIP"


def test_foreign_files_are_not_overwritten(splat, runs, tmp_path):
    own = tmp_path / "notes.html"
    own.write_text("<p>mine")
    result = splat("compare", runs["short"], runs["long"], "-o", own, "--device", "cpu")
    assert result.code == 2
    assert "is not a page of splat and would be overwritten" in result.err
    assert own.read_text() == "<p>mine"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["short"], "one run alone cannot be compared"),
        (["short", "all"], "all held out no photographs: train it with --eval"),
        (["short", "other-split"], "held out different photographs: a_"),
        (["short", "small"], "a_00.jpg has 20x15 pixels in"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_by_name(splat, runs, names, message):
    result = splat("compare", *(runs[name] for name in names), "--no-page", "--device", "cpu")
    assert result.code == 2
    assert message in result.err


def test_photographs_of_another_scene_are_refused(splat, runs, tmp_path):
    """The names and sizes are the same, but the pixels differ."""
    copy = shutil.copytree(runs["long"], tmp_path / "copy")
    scene = write_small_scene(tmp_path / "scene")
    photograph = scene / "images" / "a_03.jpg"
    shutil.copy(scene / "images" / "a_04.jpg", photograph)
    config = copy / "config.toml"
    config.write_text(re.sub(r"^scene = .*$", f'scene = "{scene}"', config.read_text(), flags=re.MULTILINE))
    result = splat("compare", runs["short"], copy, "--no-page", "--device", "cpu")
    assert result.code == 2
    assert "a_03.jpg shows other pixels for copy than for short" in result.err


def test_runs_with_other_masks_are_refused(splat, tmp_path):
    """Scores of other pixels cannot be compared."""
    scene = write_small_scene(tmp_path / "scene")
    (scene / "masks").mkdir()
    mask = np.full((30, 40), 255, np.uint8)
    mask[:10] = 0
    Image.fromarray(mask).save(scene / "masks" / "a_03.jpg.png")
    options = ["--device", "cpu", "--eval", "--test-every", "3", "--steps", "2", "--init", "points", "--no-report"]
    for name, masks in (("with", []), ("without", ["--masks", "none"])):
        assert splat("train", scene, "-o", tmp_path / name, *options, *masks).code == 0
    result = splat("compare", tmp_path / "with", tmp_path / "without", "--no-page", "--device", "cpu")
    assert result.code == 2
    assert "a_03.jpg has another mask for without than for with" in result.err
    same = shutil.copytree(tmp_path / "with", tmp_path / "same")
    assert splat("compare", tmp_path / "with", same, "--no-page", "--device", "cpu").code == 0


@pytest.mark.browser
@pytest.mark.slow
def test_menus_choose_what_is_shown(chromium, splat, runs):
    assert splat("compare", runs["short"], runs["long"], "-o", "page.html", "--device", "cpu").code == 0
    context = chromium.new_context(viewport={"width": 390, "height": 800}, offline=True)
    page = context.new_page()
    page.goto(Path("page.html").resolve().as_uri())
    shown = "[...document.querySelectorAll('.stage')].map(s => [...s.querySelectorAll('img')].map(i => i.className))"
    assert page.evaluate(shown) == [["", "left-side", "right-side"]] * 3
    page.select_option("select[data-side=right]", label="photograph")
    assert page.evaluate(shown) == [["right-side", "left-side", ""]] * 3
    assert page.locator(".stage .right").first.text_content() == "photograph"
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    context.close()

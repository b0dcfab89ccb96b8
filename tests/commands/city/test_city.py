"""`splat city` on a tiny city: each cell is trained once, cells fit together, and the result is a run."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from math import ceil
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
from PIL import Image

from splat_cli.cli.main import run
from splat_cli.commands.city.cell import merged_splats, own_splats, prepare_last_pass
from splat_cli.commands.city.city import open_city, read_city
from splat_cli.commands.city.coarse_views import CoarseViews
from splat_cli.commands.city.merge import merge_cells
from splat_cli.commands.city.plan import CellFiles, read_plan
from splat_cli.config.presets import load_config
from splat_cli.device.cpu import CpuBackend
from splat_cli.errors import DiskError
from splat_cli.gaussians.ply import origin_of_file, read_ply, write_ply
from splat_cli.run.plan import resolve_schedule
from splat_cli.run.setup.memory_plan import MemoryPlan
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.sample import make_sample_city
from splat_cli.scene import read_scene
from splat_cli.scene.colmap import read_model
from splat_cli.scene.colmap.binary import write_model
from splat_cli.terminal.console import Display, Level
from tests.held_out_scenes import write_scene
from tests.subprocesses import HANG, SPLAT, assert_gone, descendants, started, wait_until

OPTIONS = [
    "--device",
    "cpu",
    "--eval",
    "--steps",
    "60",
    "--cell-steps",
    "40",
    "--last-steps",
    "20",
    "--densify-interval",
    "10",
    "--max-splats",
    "1500",
    "--splat-budget",
    "0",
    "--cell-splats",
    "1300",
    "--init",
    "points",
    "--deterministic",
    "--checkpoint-every",
    "5",
]


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """Scene and folder of a finished city. Do not modify."""
    folder = tmp_path_factory.mktemp("city")
    scene = make_sample_city(folder / "scene", blocks=(2, 1), num_views=20, width=48, height=36)
    assert run(["city", str(scene), "-o", str(folder / "out"), *OPTIONS]) == 0
    return scene, folder / "out"


@pytest.fixture
def copy(city, tmp_path):
    return shutil.copytree(city[1], tmp_path / "out")


def last(folder):
    run = RunDir(folder)
    return read_ply(run.ply_path(run.saved_steps()[-1]))


def keys(splats):
    return [row.tobytes() for row in np.concatenate([splats.means, splats.quats], axis=1)]


def rows(splats):
    return set(keys(splats))


def test_cells_fit_together(city):
    """The last pass starts with splats of cells, each within its cell, and coarse splats that no cell trains."""
    out = city[1]
    plan, coarse = read_plan(out), last(out / "coarse")
    merged = merged_splats(RunDir(out / "coarse"), out, plan)
    assert len(plan.cells) >= 2
    assert len(merged) == len(rows(merged))
    found = 0
    for number, cell in enumerate(plan.cells):
        files = CellFiles.of(out, number)
        trained, frozen = last(files.run.path), read_ply(files.frozen)
        assert cell.round == number
        assert rows(trained.select(np.arange(len(frozen)))) == rows(frozen)
        own = own_splats(out, plan, number)
        assert rows(own) <= rows(trained.select(np.arange(len(frozen), len(trained))))
        assert rows(own) <= rows(merged)
        later = [other.cell.holds(plan.ground(own.means)) for other in plan.cells[number + 1 :]]
        assert not np.any(later)
        assert len(rows(own) - rows(coarse)) > 100
        found += len(own)
    places = plan.ground(coarse.means)
    untrained = coarse.select(~np.logical_or.reduce([cell.cell.holds(places) for cell in plan.cells]))
    assert rows(untrained) <= rows(merged)
    assert found + len(untrained) == len(merged)


def test_the_last_pass_replaces_transparent_splats_and_shows_all_photographs(city, copy):
    out = city[1]
    files, coarse, plan = CellFiles.of(out, None), RunDir(out / "coarse"), read_plan(out)
    start, merged = read_ply(files.start), merged_splats(coarse, out, plan)
    assert len(start) == ceil(len(merged) / 1.2)  # its only round adds a fifth
    assert files.run.config().max_splats == 1500 >= len(last(out)) > len(start)
    long = dataclasses.replace(read_city(copy, "cpu"), last_steps=1000)
    prepare_last_pass(long, plan, CpuBackend(), Display())
    half = read_ply(CellFiles.of(copy, None).start)
    assert len(half) == ceil(len(merged) / 2)
    for kept in (start, half):
        is_kept = np.array([row in rows(kept) for row in keys(merged)])
        assert merged.logit_opacities[is_kept].min() >= merged.logit_opacities[~is_kept].max()
    names = [sorted(view.name for view in views) for views in (read_scene(files.scene).views, coarse.views("train"))]
    assert names[0] == names[1]
    assert not files.frozen.exists()
    assert not rows(start) & rows(last(out))


def test_last_pass_trains_splats_that_cover_most_if_memory_is_short(city, copy, splat, monkeypatch):
    """The others are frozen."""
    shutil.rmtree(copy / "cells" / "last")
    monkeypatch.setattr(MemoryPlan, "trainable_of", lambda self, num: 1200)
    trained = splat("cell", copy, "--device", "cpu", "--gpus", "2")
    assert trained.code == 0, trained.err
    files, views = CellFiles.of(copy, None), RunDir(copy / "coarse").views("train")
    assert files.run.config().gpus == 1
    merged = merged_splats(RunDir(copy / "coarse"), copy, read_plan(copy))
    start, frozen = read_ply(files.start), read_ply(files.frozen)
    assert len(start) == 1200 < len(merged)
    assert rows(merged) == rows(start) | rows(frozen)
    pictures = CoarseViews(CpuBackend(), merged, views, (0, 0, 0))
    weights = sum(pictures.weights(index) for index in range(len(views)))
    is_frozen = np.array([row in rows(frozen) for row in keys(merged)])
    assert weights[is_frozen].max() <= weights[~is_frozen].min()
    assert keys(last(files.run.path).select(np.arange(len(frozen)))) == keys(frozen)
    shutil.rmtree(copy / "cells" / "last")
    monkeypatch.setattr(MemoryPlan, "trainable_of", lambda self, num: 900)
    refused = splat("cell", copy, "--device", "cpu")
    assert refused.code == 2
    assert "splats do not fit into memory: --last-steps 0 leaves out the last pass" in refused.err


def test_a_city_without_a_last_pass(city, copy, splat):
    shutil.rmtree(copy / "cells" / "last")
    (copy / "result.json").unlink()
    assert splat("city", city[0], "-o", copy, *OPTIONS, "--last-steps", "0").code == 0
    assert not (copy / "cells" / "last").exists()
    assert rows(last(copy)) == rows(merged_splats(RunDir(copy / "coarse"), copy, read_plan(copy)))
    again = splat("city", city[0], "-o", copy, *OPTIONS)
    assert (again.code, f"{copy} was finished without the last pass: remove its result.json" in again.err) == (0, True)


def test_the_second_cell_fits_to_the_first(city):
    """Splats trained beyond the border stay in the picture; the second cell grows none there."""
    out, plan = city[1], read_plan(city[1])
    files = CellFiles.of(out, 1)
    first, frozen = own_splats(out, plan, 0), read_ply(files.frozen)
    near = first.select(plan.cells[1].cell.trains(plan.ground(first.means)))
    assert len(near) > 20
    assert rows(near) <= rows(frozen)
    start = read_ply(files.start)
    assert not plan.cells[0].cell.holds(plan.ground(start.means)).any()


def test_cells_do_not_see_held_out_photographs(city):
    scene, out = city
    held_out = {view.name for view in RunDir(out).views("test")}
    for number in range(len(read_plan(out).cells)):
        names = {view.name for view in read_scene(CellFiles.of(out, number).scene).views}
        assert names <= {view.name for view in read_scene(scene).views} - held_out


def test_splats_that_only_photographs_of_other_cells_show_stay(city):
    out = city[1]
    for number in range(len(read_plan(out).cells)):
        assert not CellFiles.of(out, number).run.config().relocate_unseen


def test_the_result_is_a_run(city, splat, tmp_path):
    out = city[1]
    assert "flip" not in RunDir(out).result()  # takes a second per view: only `splat eval` does it
    assert json.loads(splat("eval", out, "--json").out)["psnr"] == pytest.approx(RunDir(out).result()["psnr"])
    assert splat("render", out, "--views", "test", "-o", tmp_path / "pictures").code == 0
    assert splat("export", out, tmp_path / "city.splat").code == 0
    assert (tmp_path / "city.splat").stat().st_size == 32 * len(last(out))


def test_a_finished_city_is_not_trained_again(city, splat):
    scene, out = city
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.name != ".lock" and path.is_file()}
    again = splat("city", scene, "-o", out, *OPTIONS)
    assert (again.code, f"{len(last(out)):,} splats" in again.out) == (0, True)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_cells_refuse_photographs_that_changed_since_the_coarse_run(city, copy, splat, tmp_path):
    """The run itself knows its inputs, too, so that `splat eval` names what has changed."""
    assert RunDir(copy).inputs() == RunDir(copy / "coarse").inputs() != {}
    scene = shutil.copytree(city[0], tmp_path / "scene")
    for path in (scene / "images").iterdir():
        Image.open(path).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(path)
    shutil.rmtree(copy / "cells" / "000")
    coarse = RunDir(copy / "coarse")
    coarse.save_config(coarse.config(), scene, "CPU")
    refused = splat("cell", copy, "0", "--device", "cpu")
    assert refused.code == 2
    assert "has another photograph" in refused.err


def test_the_merged_splats_state_the_origin(city, copy):
    """Cells are trained in coordinates relative to it and do not know it."""
    coarse = RunDir(copy / "coarse")
    coarse.save_config(coarse.config(), city[0], "CPU", (500_000, 5_400_000, 350))
    run = merge_cells(coarse, copy, read_plan(copy))
    assert origin_of_file(run.ply_path(40)) == (500_000, 5_400_000, 350)
    np.testing.assert_array_equal(last(copy).means, last(city[1]).means)


def test_cells_keep_the_background_of_transparent_photographs(tmp_path):
    """Pictures of cells are opaque: over a random background, splats would fill what is transparent."""
    scene, out = write_scene(tmp_path / "scene", []), tmp_path / "out"
    model = read_model(scene / "sparse/0")
    images = [dataclasses.replace(image, name=image.name.replace("jpg", "png")) for image in model.images]
    write_model(scene / "sparse/0", dataclasses.replace(model, images=images))
    for image in images:
        Image.new("RGBA", (80, 60), (200, 100, 50, 128)).save(scene / "images" / image.name)
    out.mkdir()
    open_city(scene, out, load_config(None, {}), 300, None, None, "cpu", None, Display(level=Level.QUIET))
    assert read_city(out, "cpu").background == "black"


@pytest.mark.parametrize(("max_splats", "batch"), [(1500, 2), (200_000_000, None)])
def test_a_last_pass_that_may_not_fit_on_one_gpu_uses_no_other(city, tmp_path, max_splats, batch):
    """One GPU moves splats to host memory, several would train fewer."""
    config = load_config(None, {"batch": 2, "max_splats": max_splats, "splat_budget": 0.0})
    (tmp_path / "out").mkdir()
    begun = open_city(city[0], tmp_path / "out", config, 300, None, None, "cpu", None, Display(level=Level.QUIET))
    assert begun.last_batch == batch
    assert begun.gpus_of_last_pass() == ([2] if batch else [])


def test_cells_use_the_background_of_the_coarse_run_and_no_depth_maps(city):
    """The folder of depth maps fits the photographs, not the undistorted pictures of a cell."""
    begun = read_city(city[1], "cpu")
    assert begun.background == "random"
    depths = dataclasses.replace(begun.config, depths="depths", depth_weight=0.3)
    config = dataclasses.replace(begun, config=depths, background="black").cell_config(read_plan(city[1]), 0)
    assert (config.background, config.depths, config.depth_weight) == ("black", "none", None)


def test_the_last_pass_has_rates_and_noise_of_a_run_from_points(city):
    begun = dataclasses.replace(read_city(city[1], "cpu"), last_steps=9000)
    last_pass = resolve_schedule(begun.cell_config(read_plan(city[1]), None), 9000, from_splats=True)
    from_points = resolve_schedule(begun.config, 9000)
    for name in ("lr_means", "lr_means_final", "lr_scales", "lr_quats", "noise_scale"):
        assert last_pass[name] == pytest.approx(from_points[name])


def test_points_of_cells_are_their_splats(city):
    """--free-space ends there, too."""
    for number in (0, 1, None):
        files = CellFiles.of(city[1], number)
        points = read_scene(files.scene).points
        np.testing.assert_allclose(points, read_ply(files.start).means, rtol=1e-6)


def test_only_what_is_missing_is_trained(city, copy, splat):
    (copy / "result.json").unlink()
    shutil.rmtree(copy / "point_cloud")
    shutil.rmtree(copy / "cells/001/run")
    start = copy / "cells/001/start.ply"
    written = start.stat().st_mtime_ns
    again = splat("city", city[0], "-o", copy, *OPTIONS)
    assert again.code == 0, again.err
    assert "cell 1: prepared in " in again.err
    assert "cell 0: " not in again.err
    assert "coarse: " not in again.err
    assert start.stat().st_mtime_ns == written
    assert rows(last(copy / "cells/000/run")) == rows(last(city[1] / "cells/000/run"))


@pytest.mark.parametrize("begun", ["scene/images", "run/cameras.json"])
def test_a_lost_worker_changes_no_byte(city, tmp_path, begun):
    """Cells on two workers of a Dask cluster; one worker is killed while it prepares or trains the first cell."""
    pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
    scene, out = city[0], tmp_path / "out"
    command = [*SPLAT, "city", scene, "-o", out, "--cluster", "local:2", *OPTIONS]
    with started(command, stderr=subprocess.PIPE) as process:
        wait_until((CellFiles.of(out, 0).folder / begun).exists, process)
        before = descendants(process.pid)
        for child in descendants(process.pid, "splat_cli.processes.child_process"):
            with suppress(psutil.NoSuchProcess):  # it has ended
                child.suspend()  # its worker must end first
                child.parent().kill()
                child.resume()
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 0, err
    assert_gone(before)
    assert RunDir(out).ply_path(40).read_bytes() == RunDir(city[1]).ply_path(40).read_bytes()


def test_a_preparation_that_was_killed_is_repeated(city, copy, splat):
    """Files of a cell may be half-written until start.ply exists."""
    (copy / "result.json").unlink()
    shutil.rmtree(copy / "point_cloud")
    files = CellFiles.of(copy, 0)
    shutil.rmtree(files.run.path)
    files.start.unlink()
    for path in (*files.scene.rglob("*.jpg"), files.frozen, files.scene / "sparse" / "0" / "images.bin"):
        os.truncate(path, path.stat().st_size // 2)
    result = splat("city", city[0], "-o", copy, *OPTIONS)
    assert result.code == 0, result.err
    assert files.start.read_bytes() == CellFiles.of(city[1], 0).start.read_bytes()
    assert RunDir(copy).ply_path(40).read_bytes() == RunDir(city[1]).ply_path(40).read_bytes()


def test_cells_are_prepared_by_their_jobs(city, copy, splat, monkeypatch):
    """The command itself prepares nothing and does not use a device."""
    (copy / "result.json").unlink()
    shutil.rmtree(copy / "cells" / "001")
    before = CellFiles.of(copy, None).start.stat().st_mtime_ns
    monkeypatch.setattr(CoarseViews, "__init__", lambda *arguments: pytest.fail("rendered by the command"))
    assert splat("city", city[0], "-o", copy, *OPTIONS).code == 0
    for number in (1, None):
        assert CellFiles.of(copy, number).start.read_bytes() == CellFiles.of(city[1], number).start.read_bytes()
    assert CellFiles.of(copy, None).start.stat().st_mtime_ns > before  # the last pass is repeated after a cell


def test_a_last_pass_on_two_gpus_has_the_same_bytes(copy, splat):
    record, found = copy / "city.json", []
    record.write_text(record.read_text().replace('"last_batch": 1', '"last_batch": 2'))
    for gpus in (1, 2):
        shutil.rmtree(copy / "cells" / "last")
        done = splat("cell", copy, "--device", "cpu", "--gpus", gpus)
        assert done.code == 0, done.err
        run = CellFiles.of(copy, None).run
        assert (run.config().gpus, run.config().batch) == (gpus, 2)
        found.append(run.ply_path(20).read_bytes())
    assert found[0] == found[1]


def test_a_last_pass_that_two_gpus_have_begun_continues_on_one(copy, splat):
    run = CellFiles.of(copy, None).run
    before = run.ply_path(20).read_bytes()
    shutil.rmtree(run.path / "point_cloud")
    shutil.rmtree(run.checkpoints_path)
    (run.path / "result.json").unlink()
    settings = run.path / "config.toml"
    settings.write_text(settings.read_text().replace("gpus = 1", "gpus = 2"))
    continued = splat("cell", copy, "--device", "cpu")
    assert continued.code == 0, continued.err
    assert "Changed: --gpus 2 -> 1" in continued.err
    assert run.ply_path(20).read_bytes() == before


def test_a_finished_cell_is_not_trained_again(city, copy, splat):
    """The job is repeated if its worker was lost before it could report."""
    files = CellFiles.of(copy, 1)
    shutil.rmtree(files.scene)
    again = splat("cell", copy, "1", "--device", "cpu", "--json")
    assert json.loads(again.out)["num_splats"] == len(last(files.run.path))
    unknown = splat("cell", copy, "7", "--device", "cpu")
    assert unknown.code == 2
    assert "has no cell 7" in unknown.err


def test_the_number_of_workers_changes_no_byte(city, splat, tmp_path):
    """Cells wait for some of the earlier ones, in three rounds or more."""
    pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
    small = [*OPTIONS, "--max-splats", "4500", "--lod", "0"]
    plys = []
    for name, options in (("one", []), ("two", ["--cluster", "local:2"])):
        result = splat("city", city[0], "-o", tmp_path / name, *small, *options)
        assert result.code == 0, result.err
        plys.append(RunDir(tmp_path / name).ply_path(40).read_bytes())
    plan = read_plan(tmp_path / "one")
    rounds = [cell.round for cell in plan.cells]
    assert len(rounds) >= 6
    assert any(len(plan.before(i)) < sum(other < number for other in rounds) for i, number in enumerate(rounds))
    assert plys[0] == plys[1]


def test_coarse_run_and_last_pass_of_two_workers_have_the_same_bytes(city, splat, tmp_path):
    """Two ranks render a batch of two."""
    pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
    plys = []
    for name, options in (("one", []), ("two", ["--cluster", "local:2"])):
        result = splat("city", city[0], "-o", tmp_path / name, *OPTIONS, "--batch", "2", "--lod", "0", *options)
        assert result.code == 0, result.err
        plys.append([RunDir(tmp_path / name / folder).ply_path(step) for folder, step in (("coarse", 60), (".", 40))])
        assert RunDir(tmp_path / name).config().gpus == 1
    assert "Rank 1 of 2 runs on" in result.err
    assert [RunDir(tmp_path / "two" / run).config().gpus for run in ("coarse", "cells/last/run")] == [2, 2]
    assert [path.read_bytes() for path in plys[0]] == [path.read_bytes() for path in plys[1]]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a process on Windows")
@pytest.mark.parametrize("stage", ["coarse", "cells/last/run"])
def test_a_city_interrupted_in_its_own_process_continues(city, splat, tmp_path, stage):
    """In the coarse run or the last pass. No process is left."""
    scene, out = city[0], tmp_path / "out"
    with started([*SPLAT, "city", scene, "-o", out, *OPTIONS], stderr=subprocess.PIPE) as process:
        wait_until(RunDir(out / stage).cameras_path.is_file, process)
        before = descendants(process.pid)
        process.terminate()
        _, err = process.communicate(timeout=HANG)
    assert (process.returncode, err.splitlines()[-1]) == (
        143,
        "Interrupted; run the same command again to continue with the rest",
    )
    assert_gone(before)
    assert not RunDir(out / stage).result()
    result = splat("city", scene, "-o", out, *OPTIONS)
    assert result.code == 0, result.err
    assert RunDir(out).ply_path(40).read_bytes() == RunDir(city[1]).ply_path(40).read_bytes()


def test_city_begun_on_a_cluster_continues_on_this_machine(city, splat, tmp_path):
    """The command is killed while two workers train cells, and then repeated without --cluster."""
    pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
    scene, out = city[0], tmp_path / "out"
    command = [*SPLAT, "city", scene, "-o", out, "--cluster", "local:2", *OPTIONS]
    with started(command, stderr=subprocess.PIPE, start_new_session=True) as process:
        wait_until(CellFiles.of(out, 0).run.cameras_path.is_file, process)
        before = descendants(process.pid)
        process.kill()
    result = splat("city", scene, "-o", out, *OPTIONS)
    assert result.code == 0, result.err
    assert_gone(before)
    assert RunDir(out).ply_path(40).read_bytes() == RunDir(city[1]).ply_path(40).read_bytes()


def test_trained_cells_are_merged_without_a_cluster(city, copy, splat):
    """Jobs of a cluster may wait for a long time. Here, no cluster listens at the address."""
    shutil.rmtree(copy / "point_cloud")
    (copy / "result.json").unlink()
    result = splat("city", city[0], "-o", copy, *OPTIONS, "--cluster", "tcp://127.0.0.1:9")
    assert result.code == 0, result.err
    assert RunDir(copy).ply_path(40).read_bytes() == RunDir(city[1]).ply_path(40).read_bytes()


def test_seconds_of_stages_and_jobs_are_recorded(city):
    seconds = json.loads((city[1] / "seconds.json").read_text())
    assert list(seconds) == [
        "coarse",
        "division",
        "cell 0",
        "cell 1",
        "cells",
        "last pass",
        "merge",
        "evaluation",
        "levels of detail",
    ]
    for name in ("cell 0", "cell 1", "last pass"):
        assert 0 < seconds[name]["phases"]["preparation"] < seconds[name]["seconds"]


def test_levels_of_detail(city):
    index = json.loads((city[1] / "lod" / "lod-meta.json").read_text())
    assert index["lodLevels"] == 5
    assert index["counts"][0] <= len(last(city[1]))
    assert index["counts"][4] < index["counts"][0] / 15


def test_levels_of_detail_are_those_of_the_result(city, copy, splat):
    """A repeated command rewrites them if the result or their number changed, and only then."""
    index = copy / "lod" / "lod-meta.json"
    before = index.stat().st_mtime_ns
    command = ("city", city[0], "-o", copy, *OPTIONS)
    assert splat(*command).code == 0
    assert index.stat().st_mtime_ns == before
    (copy / "result.json").unlink()  # merged again
    later = before + 10**13  # as if the clock had been set back
    os.utime(index, ns=(later, later))
    assert splat(*command).code == 0
    assert before < index.stat().st_mtime_ns < later
    for number in (3, 5):
        assert splat(*command, "--lod", number).code == 0
        assert json.loads(index.read_text())["lodLevels"] == number
    index.write_text("{")
    assert splat(*command).code == 0
    assert json.loads(index.read_text())["lodLevels"] == 5


def test_other_settings_are_refused(city, splat, tmp_path):
    scene, out = city
    other = make_sample_city(tmp_path / "other", blocks=(1, 1), num_views=4, width=48, height=36)
    for options, named in (
        (["--seed", "3"], "--seed"),
        (["--cell-splats", "800"], "--cell-splats (1300)"),
        ([other], f"SCENE ({scene})"),
        (["--cell-steps", "50", "--seed", "3"], "--seed, --cell-steps (40)"),
    ):
        given = [] if other in options else [scene]
        refused = splat("city", *given, "-o", out, *OPTIONS, *options)
        assert refused.code == 2
        assert f"was begun with another {named}:" in refused.err


def test_settings_may_change_as_long_as_nothing_is_trained(city, splat, tmp_path):
    out = tmp_path / "new"
    assert splat("city", city[0], "-o", out, *OPTIONS, "--cluster", "nowhere").code == 2
    assert splat("city", city[0], "-o", out, *OPTIONS, "--seed", "3", "--cell-steps", "4", "--steps", "4").code == 0
    assert RunDir(out).config().seed == 3


def test_a_city_keeps_the_defaults_of_the_version_that_began_it(city, copy, splat):
    """In that version, --scale-reg had another default, and --opacity-reg was given."""
    record, settings = copy / "city.json", RunDir(copy / "coarse").config_path
    begun = json.loads(record.read_text())
    begun["defaults"]["scale_reg"] = 0.02
    begun["settings"]["opacity_reg"] = begun["defaults"].pop("opacity_reg")
    begun["defaults"]["setting of that version"] = 1
    record.write_text(json.dumps(begun))
    settings.write_text(settings.read_text().replace("scale_reg = 0.01", "scale_reg = 0.02"))
    for options in ([], ["--scale-reg", "0.02"]):
        done = splat("city", city[0], "-o", copy, *OPTIONS, *options)
        assert done.code == 0, done.err
    assert read_city(copy, "cpu").config.scale_reg == 0.02
    refused = splat("city", city[0], "-o", copy, *OPTIONS, "--scale-reg", "0.03", "--opacity-reg", "0.02")
    assert "begun with another --opacity-reg, --scale-reg:" in refused.err


def test_the_coarse_run_keeps_the_exposures_that_cells_read(city):
    begun = read_city(city[1], "cpu")
    for appearance, keep in (("exposure", 1), ("none", 0)):
        config = dataclasses.replace(begun.config, appearance=appearance, keep=0)
        assert dataclasses.replace(begun, config=config).coarse_config().keep == keep


def test_cells_keep_the_settings_and_splats_of_their_coarse_run(city, copy, splat):
    """Cells of another split would have trained on photographs that the result calls held out."""
    (copy / "result.json").unlink()
    shutil.move(copy / "coarse", copy / "moved")
    refused = splat("city", city[0], "-o", copy, *OPTIONS, "--test-every", "5")
    assert (refused.code, "begun with another --test-every" in refused.err) == (2, True)
    shutil.move(copy / "moved", copy / "coarse")
    (copy / "city.json").unlink()
    refused = splat("city", city[0], "-o", copy, *OPTIONS, "--test-every", "5")
    assert (refused.code, "was trained with another --test-every" in refused.err) == (2, True)
    (copy / "city.json").unlink()
    names = [view.name for view in RunDir(copy / "coarse").views("test")]
    (lists := copy / "lists.json").write_text(json.dumps({"test": names, "other": []}))  # new cities refuse these
    refused = splat("city", city[0], "-o", copy, *OPTIONS, "--split", lists)
    assert (refused.code, "was trained with another --split" in refused.err) == (2, True)
    (copy / "city.json").unlink()
    ply = RunDir(copy / "coarse").ply_path(60)
    write_ply(ply, last(copy / "coarse").select(slice(1, None)))
    refused = splat("city", city[0], "-o", copy, *OPTIONS)
    assert (refused.code, f"remove {copy / 'cells'}, and the same command" in refused.err) == (2, True)


def test_the_folder_of_another_run_or_a_scene_is_left_alone(city, splat, tmp_path):
    """A city must not report that run's result as its own or replace its files."""
    run = RunDir(tmp_path / "run")
    options = ("--device", "cpu", "--steps", "2", "--init", "points", "--no-report")
    assert splat("train", city[0], "-o", run.path, *options).code == 0
    scene = shutil.copytree(city[0], tmp_path / "scene")
    for folder in (run.path, scene):
        before = sorted(folder.rglob("*"))
        refused = splat("city", city[0], "-o", folder, *OPTIONS)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert f"{folder} holds other files: name another folder, or an empty one" in refused.err
        assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("stage", ["coarse", "cells/000/run", "cells/last/run"])
def test_a_finished_stage_that_has_lost_its_splats_is_named(city, copy, splat, stage):
    (copy / "result.json").unlink()
    if "last" not in stage:
        shutil.rmtree(copy / "cells" / "last")
    shutil.rmtree(copy / stage / "point_cloud")
    refused = splat("city", city[0], "-o", copy, *OPTIONS)
    error = refused.err.splitlines()[-1]
    assert refused.code == 2
    assert f"{copy / stage} has lost its splats: remove that folder, and the same command trains it" in error
    shutil.rmtree(copy / stage)
    result = splat("city", city[0], "-o", copy, *OPTIONS)
    assert result.code == 0, result.err
    assert RunDir(copy).ply_path(40).read_bytes() == RunDir(city[1]).ply_path(40).read_bytes()


def test_temporary_files_of_a_killed_command_are_removed(city, copy, splat):
    """Except in the coarse run and in cells, where other processes may be writing."""
    left = [copy / "lod" / ".lod-meta.json.7.part", copy / "cells" / ".plan.json.7.part"]
    kept = [copy / "coarse" / ".config.toml.7.part", CellFiles.of(copy, 0).folder / ".start.ply.7.part"]
    left[0].mkdir()
    for path in (left[0] / "means_l.webp", left[1], *kept):
        path.write_text("begun")
    assert splat("city", city[0], "-o", copy, *OPTIONS).code == 0
    assert [path.exists() for path in (*left, *kept)] == [False, False, True, True]


def test_a_cell_removes_what_its_killed_process_left(copy, splat):
    left = CellFiles.of(copy, 0).folder / ".start.ply.7.part"
    left.write_text("begun")
    assert splat("cell", copy, "0", "--device", "cpu", "--json").code == 0
    assert not left.exists()


def test_seconds_that_cannot_be_written_do_not_stop_a_city(city, copy, splat):
    (copy / "result.json").unlink()
    (copy / "seconds.json").unlink()
    (copy / "seconds.json").mkdir()
    result = splat("city", city[0], "-o", copy, *OPTIONS)
    assert (result.code, "Warning: " in result.err, "seconds.json" in result.err) == (0, True, True)
    assert (copy / "result.json").is_file()


def test_a_city_is_not_finished_without_its_scores(city, copy, splat, monkeypatch):
    (copy / "result.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "save_metrics", Mock(side_effect=DiskError("metrics.json was not written")))
        failed = splat("city", city[0], "-o", copy, *OPTIONS)
    assert (failed.code, failed.err.splitlines()[-1]) == (1, "Error: metrics.json was not written")
    assert not (copy / "result.json").exists()


def test_damaged_seconds_do_not_stop_a_city(city, copy, splat):
    (copy / "result.json").unlink()
    (copy / "seconds.json").write_text("{")
    assert splat("city", city[0], "-o", copy, *OPTIONS).code == 0
    assert "merge" in json.loads((copy / "seconds.json").read_text())


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("city.json", "remove it, and the same command continues"),
        ("cells/plan.json", "and the cells are planned again"),
        ("coarse/result.json", "remove the file"),
        ("coarse/point_cloud/iteration_60/point_cloud.ply", "/coarse, and the same command trains it again"),
        ("cells/000/run/point_cloud/iteration_40/point_cloud.ply", "/run, and the same command trains it again"),
        ("cells/000/frozen.ply", "/cells/000, and the same command trains it again"),
        ("cells/last/run/point_cloud/iteration_20/point_cloud.ply", "/run, and the same command trains it again"),
    ],
)
def test_a_file_cut_short_is_named_with_what_to_do(city, copy, splat, name, advice):
    (copy / "result.json").unlink()
    if "last" not in name:
        shutil.rmtree(copy / "cells" / "last")
    (copy / name).write_text("{")
    refused = splat("city", city[0], "-o", copy, *OPTIONS)
    error = refused.err.splitlines()[-1]
    assert refused.code == 2
    assert name in error
    assert advice in error


def test_a_city_without_a_scene_leaves_no_folder(splat, tmp_path):
    (tmp_path / "empty").mkdir()
    result = splat("city", tmp_path / "empty", "-o", tmp_path / "out" / "city", "--device", "cpu")
    assert result.code == 2
    assert "has neither photographs nor camera poses" in result.err
    assert not (tmp_path / "out").exists()


def test_settings_that_cells_refuse(city, splat, tmp_path):
    for options in (["--color", "field"], ["--appearance", "grid"], ["--gpus", "2"]):
        refused = splat("city", city[0], "-o", tmp_path / "new", *options)
        assert refused.code == 2
        assert f"does not work with {options[0]}" in refused.err


def test_a_cell_that_fails_is_named(city, copy, splat):
    (copy / "result.json").unlink()
    shutil.rmtree(copy / "cells/000/run")
    shutil.rmtree(copy / "cells/000/scene/images")
    failed = splat("city", city[0], "-o", copy, *OPTIONS)
    assert failed.code == 2
    assert "cell 0: " in failed.err
    assert "images" in failed.err


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "null",
        '{"cell_splats": 900}',
        '{"cell_splats": 900, "max_splats": "many"}',
        '{"cell_splats": 900, "max_splats": 900, "scene": "a", "settings": {"of_another_version": 1}}',
    ],
)
def test_a_damaged_record_is_named(city, splat, tmp_path, content):
    (tmp_path / "city.json").write_text(content)
    refused = splat("city", city[0], "-o", tmp_path, *OPTIONS)
    assert refused.code == 2
    assert "city.json is damaged: remove it" in refused.err


def test_a_cell_without_its_photographs(city, copy, splat):
    (copy / "result.json").unlink()
    shutil.rmtree(copy / "cells/000")
    path = copy / "cells" / "plan.json"
    content = json.loads(path.read_text())
    content["cells"][0]["views"] = ["gone.jpg"]
    path.write_text(json.dumps(content))
    refused = splat("city", city[0], "-o", copy, *OPTIONS)
    assert refused.code == 2
    assert "all photographs of cell 0 are missing" in refused.err

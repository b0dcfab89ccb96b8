"""The folder of a run: creation, checks, contents, recognition."""

import json
import os
import re
import shutil

import pytest

from splat_cli.config.presets import load_config
from splat_cli.errors import FormatError, UnreadableError, UsageError
from splat_cli.run.storage.find_run import find_splats, new_locked_run, open_run, unused_folder
from splat_cli.run.storage.run_dir import RunDir
from tests.views import ring_of_views


@pytest.fixture
def run(tmp_path):
    run = RunDir(tmp_path / "run")
    run.save_config(load_config("demo", {"test_every": 4}), tmp_path / "scene", "CPU")
    run.save_cameras(ring_of_views(12))
    return run


def _save(run, step):
    path = run.ply_path(step)
    path.parent.mkdir(parents=True)
    path.touch()
    return path


def test_new_folder_is_removed_after_an_error_with_the_parents_made_for_it(tmp_path):
    with pytest.raises(ZeroDivisionError), new_locked_run(tmp_path / "a" / "b"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_new_folder_keeps_what_was_saved_before_an_error(tmp_path):
    def save_and_fail(run):
        run.log.append({"step": 1})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), new_locked_run(tmp_path / "a") as run:
        save_and_fail(run)
    assert (tmp_path / "a" / "train.jsonl").is_file()


def test_folder_with_something_in_it_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="holds other files"), new_locked_run(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("names", [("split.json",), ("trials.json", "split.json"), ("cameras.json",)])
def test_a_split_of_the_user_is_not_one_of_a_killed_run(tmp_path, names):
    """A run writes inputs.json before it."""
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match="holds other files"), new_locked_run(tmp_path):
        pass
    (tmp_path / "inputs.json").touch()
    with new_locked_run(tmp_path):
        pass


def test_a_new_run_uses_no_split_or_trials_of_a_killed_one(splat, scene, trained, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("inputs.json", "cameras.json"):
        shutil.copy(trained / name, folder)
    names = [view.name for view in RunDir(trained).views("all")]
    (folder / "split.json").write_text(json.dumps({"train": names[1:], "test": names[:1]}))
    (folder / "trials.json").write_text('{"trials": [], "chosen": {"steps": 5}}')
    result = splat("train", scene, "-o", folder, "--eval", "--test-every", "3", "--steps", "2", "--device", "cpu")
    assert result.code == 0, result.err
    run = RunDir(folder)
    assert [view.name for view in run.views("test")] == [view.name for view in RunDir(trained).views("test")]
    assert run.trials() == {}


def test_a_new_run_does_not_overwrite_another(trained):
    with (
        pytest.raises(UsageError, match=r"holds a run: `splat train --resume .*` continues it"),
        new_locked_run(trained),
    ):
        pass
    assert (trained / "config.toml").is_file()


def test_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"), new_locked_run(tmp_path / "file" / "run"):
        pass


def test_unused_folder_counts_up(tmp_path):
    assert unused_folder(tmp_path / "run").name == "run"
    for expected in ("run", "run-2", "run-3"):
        folder = unused_folder(tmp_path / "run")
        assert folder.name == expected
        folder.mkdir()
        (folder / "something").touch()


def test_views_by_name(run):
    test = [view.name for view in run.views("test")]
    assert test == ["a_00.jpg", "a_04.jpg", "a_08.jpg"]
    assert len(run.views("train")) == 9
    assert len(run.views("all")) == 12


def test_a_run_without_eval_trains_on_all_views(run):
    run.save_config(load_config(), run.path / "scene", "CPU")
    assert len(run.views("train")) == 12


def test_splats_of_a_run_are_the_last_saved(run):
    _save(run, 7000)
    last = _save(run, 30000)
    assert run.saved_steps() == [7000, 30000]
    assert find_splats(run.path) == (last, run)


def test_a_run_that_was_continued_has_no_result_of_its_earlier_end(run):
    run.save_result(result := {"steps": 7000, "num_splats": 9, "seconds": 1.0})
    assert run.result() == result
    _save(run, 7000)
    assert run.result() == result
    _save(run, 7001)
    assert run.result() == {}


def test_find_splats_knows_the_run_of_a_file(run, tmp_path):
    early = _save(run, 7000)
    ply, found = find_splats(early)
    assert (ply, found) == (early, RunDir(run.path.resolve()))
    os.link(early, early.with_name("Point_Cloud.ply"))  # as a file system that ignores case finds it
    assert find_splats(early.with_name("Point_Cloud.ply"))[1] == found
    other = tmp_path / "other.ply"
    other.touch()
    assert find_splats(other) == (other, None)


def test_a_run_without_splats_is_an_error(run):
    with pytest.raises(UsageError, match="no splats yet"):
        find_splats(run.path)


def test_a_folder_that_is_not_a_run_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="not the folder of a run"):
        open_run(tmp_path)
    (tmp_path / "transforms.json").write_text("{}")
    with pytest.raises(UsageError, match=re.escape(f"`splat train {tmp_path}` trains on it")):
        open_run(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        open_run(tmp_path / "nowhere")


def test_runs_around_and_inside_a_path_are_named(run):
    above, below = run.path.parent, run.path / "checkpoints" / "step_20.npz"
    below.parent.mkdir(exist_ok=True)
    below.touch()
    with pytest.raises(
        UsageError, match=re.escape(f"{above} is not the folder of a run, but holds 1: give {run.path}")
    ):
        open_run(above)
    for inside in (below, below.parent):
        with pytest.raises(
            UsageError, match=re.escape(f"{inside} is not the folder of a run, but inside of one: give {run.path}")
        ):
            open_run(inside)


@pytest.mark.parametrize("content", ["{", "[]"])
@pytest.mark.parametrize(
    ("name", "advice"), [("metrics", "remove the file"), ("result", "remove the file"), ("inputs", "restore it")]
)
def test_a_damaged_file_is_named(run, name, advice, content):
    (run.path / f"{name}.json").write_text(content)
    with pytest.raises(FormatError, match=rf"{name}\.json .*; {advice}$"):
        getattr(run, name)()


@pytest.mark.parametrize(
    ("changes", "name", "read", "advice"),
    [
        ({"background": "learned"}, "background.json", RunDir.background, "resume the run with more --steps"),
        ({"appearance": "camera"}, "camera_response.json", RunDir.responses, "resume the run with more --steps"),
        ({"split": "names.txt"}, "split.json", lambda run: run.views("test"), "restore it"),
        ({"split_by": "sector"}, "split.json", lambda run: run.views("train"), "resume the run with more --steps"),
    ],
)
def test_a_lost_file_is_not_replaced_by_defaults(run, changes, name, read, advice):
    """Scores of another background, or of photographs that were trained on, would be recorded."""
    run.save_config(load_config("demo", {"eval": True, **changes}), run.path / "scene", "CPU")
    with pytest.raises(FormatError, match=rf"{re.escape(name)}.* is missing: .*{advice}"):
        read(run)


def test_runs_of_earlier_versions_have_a_black_background(run):
    run.save_config(load_config("demo", {"background": "random"}), run.path / "scene", "CPU")
    assert run.background() == (0, 0, 0)
    run.save_background((0.1, 0.2, 0.3))
    assert run.background() == (0.1, 0.2, 0.3)


def test_a_lost_split_of_the_dataset_is_noticed(run):
    """No setting tells of it."""
    config = load_config("demo", {"eval": True})
    run.split_path.write_text("a_01.jpg")
    run.save_config(config, run.path / "scene", "CPU")
    run.split_path.unlink()
    with pytest.raises(FormatError, match=r"split\.json, .*, is missing"):
        run.views("test")
    assert len(run.views("all")) == 12


@pytest.mark.parametrize("name", ["metrics", "result", "inputs"])
def test_a_file_that_cannot_be_read_now_is_neither_damaged_nor_empty(run, name):
    """On a failing disk, the message must not suggest removing the file, and nothing may replace its content."""
    (run.path / f"{name}.json").mkdir()
    with pytest.raises(UnreadableError, match=rf"{name}\.json cannot be read: Is a directory; make it readable"):
        getattr(run, name)()


def test_a_log_that_cannot_be_read_now_is_not_replaced(run):
    run.log.path.mkdir()
    with pytest.raises(UnreadableError, match=r"train\.jsonl cannot be read: Is a directory"):
        run.log.cut(0)


def test_scene_and_settings_read_back(run, tmp_path):
    assert run.scene_path() == (tmp_path / "scene").resolve()
    assert run.config() == load_config("demo", {"test_every": 4})

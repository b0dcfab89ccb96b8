"""`splat batch`: trains each scene separately, skips finished scenes, resumes others, and stops them together."""

import json
import shutil
import signal
import subprocess
import threading

import psutil
import pytest

from splat_cli.commands import batch
from splat_cli.commands.batch import BatchScene, plan_batch
from splat_cli.config import TrainConfig
from splat_cli.device import cuda
from splat_cli.engine import engine
from splat_cli.engine.job import JobResult, train_job
from splat_cli.errors import UsageError
from splat_cli.run.storage.run_dir import RunDir
from tests.subprocesses import ENDLESS, HANG, SPLAT, started, wait_for_checkpoint, wait_until


def _list(path, text):
    path.write_text(text)
    return path


def test_list_gives_scenes_names_and_settings(tmp_path):
    text = 'steps = 5\n[[scene]]\npath = "a"\nmax_splats = 7\n[[scene]]\npath = "b"\nname = "other"\nsteps = 6\n'
    first, second = plan_batch([_list(tmp_path / "l.toml", text)], tmp_path / "out", None, {"seed": 3})
    assert (first.name, first.path, first.run) == ("a", tmp_path / "a", tmp_path / "out" / "a")
    assert (first.config.steps, first.config.max_splats, first.config.seed) == (5, 7, 3)
    assert (second.name, second.config.steps) == ("other", 6)


def test_settings_in_a_list_may_be_named_as_options(tmp_path):
    (tmp_path / "list.toml").write_text('max-splats = 9\n[[scene]]\npath = "a"\nsplit = "b.txt"\ninit-from = "c.ply"\n')
    (job,) = plan_batch([tmp_path / "list.toml"], tmp_path / "out", None, {})
    assert (job.config.max_splats, job.config.init_from) == (9, str(tmp_path / "c.ply"))
    (tmp_path / "list.toml").write_text('max-splats = 9\nmax_splats = 8\n[[scene]]\npath = "a"\n')
    with pytest.raises(UsageError, match="'max-splats' and 'max_splats' are the same setting"):
        plan_batch([tmp_path / "list.toml"], tmp_path, None, {})


def test_paths_in_a_list_are_beside_it_or_in_the_scene(tmp_path):
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists/a/images_4").mkdir(parents=True)
    text = 'split = "test.txt"\nmasks = "none"\n[[scene]]\npath = "a"\nimages = "images_4"\ninit_from = "start.ply"\n'
    (job,) = plan_batch([_list(tmp_path / "lists/l.toml", text)], tmp_path / "out", None, {"crop": None})
    beside = tmp_path / "lists"
    assert (job.config.split, job.config.init_from) == (str(beside / "test.txt"), str(beside / "start.ply"))
    assert (job.config.images, job.config.masks) == ("images_4", "none")
    text = '[[scene]]\npath = "a"\nimages = "elsewhere"\n'
    (job,) = plan_batch([_list(tmp_path / "lists/l.toml", text)], tmp_path / "out", None, {})
    assert job.config.images == str(beside / "elsewhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = 5\n", "lists no scenes"),
        ("scene = 3\n", "lists no scenes"),
        ("[[scene]]\nsteps = 5\n", "needs a path"),
        ('[[scene]]\npath = "a"\nstepz = 5\n', "l.toml: 'stepz' is not a setting; did you mean 'steps'?"),
        ('[[scene]]\npath = "a"\n[[scene]]\npath = "b/a"\n', "both called 'a'"),
        ('[[scene]]\npath = "a"\n[[scene]]\npath = "./a/"\n', "a is given twice: give it once, or two names"),
        (
            '[[scene]]\npath = "a"\ncluster = "local:2"\n',
            "'cluster' is not a setting; `splat train --help-all` lists them",
        ),
        ('[[scene]]\npath = "a"\nname = "summary.json"\n', "'summary.json' is a file of the batch"),
        ('[[scene]]\npath = "a"\n[[scene]]\npath = "b"\nname = "a.log"\n', "'a.log' is a file of the batch"),
        ('[[scene]]\npath = "a"\ngpus = 3\nbatch = 4\n', "--batch 4 is not a multiple of --gpus 3"),
        ('[[scene]]\npath = "a"\ngpus = 2\ncolor = "field"\n', "--gpus 2 does not work with --color field"),
        ('[[scene]]\npath = "out/a"\n', "out/a is the scene itself: name another -o"),
        ('[[scene]]\npath = "a\\u0000b"\n', "null character"),
        ('images = "a\\u0000b"\n[[scene]]\npath = "a"\n', "null character"),
        ('[[scene]]\npath = "a"\nname = "../../x"\n', "not a valid name of a run's folder"),
        ('[[scene]]\npath = "a"\nname = ".."\n', "not a valid name of a run's folder"),
        ('[[scene]]\npath = "a"\nname = "/etc"\n', "not a valid name of a run's folder"),
        ('[[scene]]\npath = "a"\nname = "a\\u0000b"\n', "not a valid name of a run's folder"),
        ('[[scene]]\npath = "/"\n', "not a valid name of a run's folder"),
        (f'[[scene]]\npath = "a"\nname = "{"n" * 300}"\n', "not a valid name of a run's folder"),
    ],
)
def test_wrong_list_is_refused(tmp_path, text, message):
    with pytest.raises(UsageError, match=message):
        plan_batch([_list(tmp_path / "l.toml", text)], tmp_path / "out", None, {})


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("file", "file cannot be made: {}/file is a file; name another folder"),
        ("file/runs", "file/runs cannot be made: {}/file is a file; name another folder"),
        ("used", "used/summary.json cannot be written: Is a directory; make it writable, or choose another place"),
    ],
)
def test_output_folder_that_cannot_be_used_is_reported_before_training(splat, scene, tmp_path, out, message):
    (tmp_path / "file").write_text("a")
    (tmp_path / "used" / "summary.json").mkdir(parents=True)
    result = splat("batch", scene, "-o", tmp_path / out, "--device", "cpu", "--steps", 2)
    assert (result.code, result.err.count("\n"), message.format(tmp_path) in result.err) == (2, 1, True), result.err
    assert (tmp_path / "file").read_text() == "a"


def test_a_missing_gpu_is_reported_once(splat, scene, tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "why_no_cuda", lambda: "no driver was found")
    for cluster in ((), ("--cluster", "local:2")):
        result = splat("batch", scene, "-o", tmp_path / "out", "--device", "cuda", "--steps", 2, *cluster)
        assert (result.code, result.err) == (1, "Error: no CUDA device: no driver was found; or use --device cpu\n")


def test_run_of_another_scene_of_the_same_name_is_not_taken(splat, scene, tmp_path):
    """Its run is not reported as the result or continued with other photographs. A moved scene is continued."""
    first, second = tmp_path / "first" / "garden", tmp_path / "second" / "garden"
    for folder in (first, second):
        shutil.copytree(scene, folder)
    arguments = ("-o", tmp_path / "out", "--device", "cpu", "--save-at", "", "--no-report", "--json", "--steps")
    assert splat("batch", first, *arguments, 3).code == 0
    before = RunDir(tmp_path / "out" / "garden").result()
    for steps in (3, 6):
        result = splat("batch", second, *arguments, steps)
        (outcome,) = json.loads(result.out)["scenes"]
        assert (result.code, outcome["status"], outcome["exit_code"]) == (1, "failed", 2)
        assert f"is a run of {first}, not of {second}: name another -o" in outcome["error"]
        assert RunDir(tmp_path / "out" / "garden").result() == before
    shutil.rmtree(first)
    assert json.loads(splat("batch", second, *arguments, 3).out)["scenes"][0]["status"] == "skipped"


def test_batch_trains_skips_and_isolates(splat, scene, tmp_path):
    good, bad, out = tmp_path / "good", tmp_path / "bad", tmp_path / "out"
    shutil.copytree(scene, good)
    bad.mkdir()
    arguments = ["batch", good, bad, "-o", out, "--device", "cpu", "--steps", 3, "--save-at", "", "--eval"]
    result = splat(*arguments, "--json")
    assert result.code == 1, result.err
    first, second = json.loads(result.out)["scenes"]
    assert (first["scene"], first["status"], first["steps"]) == ("good", "done", 3)
    assert (second["scene"], second["status"], second["exit_code"]) == ("bad", "failed", 2)
    assert str(bad) in second["error"]
    assert json.loads((out / "summary.json").read_text()) == [first, second]
    again = splat(*arguments)
    assert "was trained with another" not in again.err
    table = again.out.splitlines()
    assert table[1].startswith("good  skipped  ")
    assert table[2].startswith("bad   failed   ")
    assert table[3] == f"1 of 2 scenes failed: see {out}/NAME.log; the same command tries them again"
    assert len(table) == 4
    other = splat(*arguments, "--sh-degree", 1, "--seed", 2).err
    assert f"{out}/good was trained with another --seed, --sh-degree, and is kept" in other


def test_result_of_another_shape_fails_alone(splat, scene, tmp_path):
    (tmp_path / "out" / "odd").mkdir(parents=True)
    (tmp_path / "out" / "odd" / "result.json").write_text('{"steps": "x"}')
    scenes = _list(tmp_path / "l.toml", f'steps = 2\n[[scene]]\npath = "{scene}"\nname = "odd"\n')
    result = splat("batch", scenes, "-o", tmp_path / "out", "--device", "cpu", "--json")
    (outcome,) = json.loads(result.out)["scenes"]
    assert (result.code, outcome["status"], outcome["exit_code"]) == (1, "failed", 2)
    assert "result.json is corrupt" in outcome["error"]


def test_batch_resumes_what_was_stopped(splat, scene, tmp_path):
    out = tmp_path / "out"
    run = RunDir(out / scene.name)
    arguments = ["batch", scene, "-o", out, "--device", "cpu", "--save-at", "", "--checkpoint-every", "10", "--steps"]
    command = [*SPLAT, *arguments, str(ENDLESS)]
    with started(command, stderr=subprocess.PIPE) as process:
        wait_for_checkpoint(process, run.path)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 143, err
    (step,) = run.saved_steps()
    result = splat(*arguments, step + 3)
    assert result.code == 0, result.err
    assert run.saved_steps() == [step, step + 3]
    assert "Continuing from step" in (out / f"{scene.name}.log").read_text()


def test_process_that_is_killed_fails_alone(splat, scene, tmp_path):
    scenes = tmp_path / "scenes.toml"
    lines = f'[[scene]]\npath = "{scene}"\nname = "%s"\nsteps = %d\n'
    scenes.write_text(lines % ("killed", ENDLESS) + lines % ("other", 3))
    out = tmp_path / "out"
    arguments = ["batch", scenes, "-o", out, "--device", "cpu", "--save-at", "", "--checkpoint-every", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started([*SPLAT, *arguments], **pipes) as process:
        wait_until(RunDir(out / "killed").log.path.is_file, process)
        (child,) = psutil.Process(process.pid).children()
        child.kill()
        out, err = process.communicate(timeout=HANG)
    assert process.returncode == 1, err
    killed, other = json.loads(out)["scenes"]
    assert (killed["status"], killed["exit_code"]) == ("failed", -signal.SIGKILL)
    assert "the process ended with -9" in killed["error"]
    assert (other["status"], other["steps"]) == ("done", 3)
    scenes.write_text(lines % ("killed", 4) + lines % ("other", 3))
    result = splat(*arguments)
    assert result.code == 0, result.err
    assert [outcome["status"] for outcome in json.loads(result.out)["scenes"]] == ["done", "skipped"]


def test_a_scene_that_another_batch_trains_is_waited_for(splat, scene, tmp_path, monkeypatch):
    """Two commands on one folder: both end with success, and each scene is trained once."""
    monkeypatch.setattr(engine, "LOCK_PATIENCE", 0.1)
    run, log = RunDir(tmp_path / "out" / scene.name), tmp_path / "out" / f"{scene.name}.log"
    arguments = ["batch", scene, "-o", tmp_path / "out", "--device", "cpu", "--save-at", "", "--steps", 300]
    arguments += ["--no-report", "--checkpoint-every", 10]
    with started([*SPLAT, *map(str, arguments)], stderr=subprocess.PIPE) as first:
        wait_for_checkpoint(first, run.path)
        (child,) = psutil.Process(first.pid).children()
        child.suspend()  # until the second command has been refused twice
        has_ended = threading.Event()

        def resume():
            wait_until(lambda: log.read_text().count(" is in use by ") > 1 or has_ended.is_set())
            child.resume()

        threading.Thread(target=resume).start()
        second = splat(*arguments, "--json")
        has_ended.set()
        _, err = first.communicate(timeout=HANG)
    assert (first.returncode, second.code) == (0, 0), err + second.err
    (outcome,) = json.loads(second.out)["scenes"]
    assert (outcome["status"], outcome["steps"]) == ("done", 300)
    assert run.saved_steps() == [300]


def test_scene_that_a_lost_worker_finished_is_done(tmp_path):
    (tmp_path / "run").mkdir()
    scene = BatchScene("run", tmp_path, tmp_path / "run", TrainConfig(steps=5))
    job = train_job(scene.name, scene.path, scene.run, scene.config, "cpu")
    refused = JobResult(job, 2, 1.0, "", json.dumps({"error": "the run is finished", "exit_code": 2}), "")
    assert batch._scene_result(scene, refused).status == "failed"
    RunDir(scene.run).save_result({"steps": 5, "num_splats": 1, "seconds": 1.0})
    assert batch._scene_result(scene, refused).status == "done"


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, []),
        ({"batch": 1}, ["--batch=1"]),
        ({"gpus": 2, "batch": 2}, ["--gpus=2", "--batch=2"]),
    ],
)
def test_batch_of_one_photograph_per_gpu_is_passed_on(tmp_path, settings, options):
    """Long runs have a different batch size by default."""
    job = train_job("run", tmp_path, tmp_path / "run", TrainConfig(**settings), "cpu")
    assert [one for one in job.arguments if one.startswith(("--batch", "--gpus"))] == options

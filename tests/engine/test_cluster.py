"""`splat batch --cluster`: the same bytes as without a cluster, even if processes end meanwhile."""

import os
import platform
import signal
import stat
import subprocess
import threading
from importlib.util import find_spec

import pytest

from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display
from tests.subprocesses import (
    HANG,
    SPLAT,
    assert_gone,
    descendants,
    environment,
    newest_checkpoint,
    started,
    stopped_at_checkpoint,
    wait_until,
)

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")

from splat_cli.engine import clusters
from tests.engine.dask_cluster import dask_cluster

OPTIONS = ["--device", "cpu", "--save-at", "", "--no-report"]
SLURM = """#!/bin/sh
# sbatch: runs the job at once, and says its number as SLURM does; the file of the job is removed then
job=$(cat "$1")
setsid sh -c "$job" >>{log} 2>&1 </dev/null & echo "Submitted batch job $!"
"""
CANCEL = """#!/bin/sh
kill -- "-$1"
"""


def batch(*arguments, **variables):
    """`splat batch`, in its own process group, as in a terminal; killed at the end."""
    command = [*SPLAT, "batch", *map(str, arguments), *OPTIONS]
    return started(command, env=environment(**variables), stderr=subprocess.PIPE, start_new_session=True)


def splats(run, steps):
    return RunDir(run).ply_path(steps).read_bytes()


def test_lost_worker_and_a_cluster_change_no_byte(splat, scene, tmp_path):
    scenes = tmp_path / "scenes.toml"
    table = '[[scene]]\npath = "%s"\nname = "%s"\nsteps = %d\n'
    scenes.write_text(
        "deterministic = true\ncheckpoint_every = 20\n" + table % (scene, "long", 400) + table % (scene, "short", 20)
    )
    expected = splat("batch", scenes, "-o", tmp_path / "plain", *OPTIONS)
    assert expected.code == 0, expected.err
    out = tmp_path / "out"
    with batch(scenes, "-o", out, "--cluster", "local:2") as process:
        child = stopped_at_checkpoint(process.pid, str(out / "long"), out / "long")  # its worker must end first
        before = descendants(process.pid)
        child.parent().kill()
        child.resume()
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 0, err
    assert "long: runs on " in err
    assert "long: resumed on " in err
    for name, steps in (("long", 400), ("short", 20)):
        assert splats(out / name, steps) == splats(tmp_path / "plain" / name, steps)
    assert_gone(before)


def test_interrupt_ends_all_processes_and_saves(scene, tmp_path):
    out = tmp_path / "out"
    run = RunDir(out / scene.name)
    with batch(scene, "-o", out, "--cluster", "local:1", "--steps", "1000000") as process:
        # Before the first step is over, a signal ends the run at once: there is nothing to save.
        wait_until(lambda: any(line["step"] > 1 for line in run.log.entries()), process)
        before = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "Interrupted; run the same command again to continue with the rest"
    assert "Traceback" not in err
    assert_gone(before)
    assert len(run.saved_steps()) == 1


def test_scene_waits_for_another_worker_where_none_is_left(splat, scene, tmp_path, monkeypatch):
    """Another worker joins, later and with fewer threads than before."""
    out, ready = tmp_path / "out", threading.Event()
    say = Display.say

    def told(display, text):
        say(display, text)
        if "All workers have left" in text:
            ready.set()

    monkeypatch.setattr(Display, "say", told)
    with dask_cluster(tmp_path / "cluster", 2) as cluster:

        def replace_workers():
            wait_until(lambda: newest_checkpoint(out / scene.name))
            for worker in cluster.workers:
                worker.kill()
            ready.wait(HANG)
            cluster.add_worker()

        thread = threading.Thread(target=replace_workers)
        thread.start()
        options = ("--steps=2000", "--checkpoint-every=20", "--cluster", cluster.address)
        result = splat("batch", scene, "-o", out, *OPTIONS, *options)
        thread.join()
    assert result.code == 0, result.err
    assert "resumed on " in result.err


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="SLURM needs the extra `cluster`")
def test_slurm(scene, tmp_path):
    for name, text in (("sbatch", SLURM.format(log=tmp_path / "slurm.log")), ("scancel", CANCEL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    settings = tmp_path / "slurm.toml"
    settings.write_text('jobs = 1\nmemory = "2GB"\ninterface = "lo"\nwalltime = "00:05:00"\n')
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with batch(scene, "-o", tmp_path / "out", "--steps", 3, "--cluster", settings, PATH=path) as process:
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 0, err + (tmp_path / "slurm.log").read_text()
    assert RunDir(tmp_path / "out" / scene.name).result()["steps"] == 3


def _has_slurm():
    """Whether SLURM runs here with this machine as its only node."""
    try:
        nodes = subprocess.run(["sinfo", "-h", "-o", "%n"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return nodes.stdout.split() == [platform.node()]


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="SLURM needs the extra `cluster`")
def test_scene_is_resumed_after_its_job_in_slurm_is_cancelled(splat, scene, tmp_path, monkeypatch):
    """Uses the small SLURM of docs/experiments/clusters.md."""
    if not _has_slurm():
        pytest.skip("no SLURM of this machine runs")
    monkeypatch.setattr(clusters, "_RESUBMIT", 1.0)
    options = ("--deterministic", "--steps=4000", "--checkpoint-every=20")
    assert splat("batch", scene, "-o", tmp_path / "plain", *OPTIONS, *options).code == 0
    run, settings, name = tmp_path / "out" / scene.name, tmp_path / "slurm.toml", f"splat-{os.getpid()}"
    settings.write_text(
        f'jobs = 1\nmemory = "1GB"\ninterface = "lo"\nwalltime = "00:05:00"\njob_name = "{name}"\n'
        f'log_directory = "{tmp_path}"\n'
    )

    def cancel():
        wait_until(lambda: newest_checkpoint(run))
        subprocess.run(["scancel", "--name", name], check=True)

    thread = threading.Thread(target=cancel)
    thread.start()
    result = splat("batch", scene, "-o", tmp_path / "out", *OPTIONS, *options, "--cluster", settings)
    thread.join()
    assert result.code == 0, result.err
    assert f"{scene.name}: resumed on " in result.err
    assert splats(run, 4000) == splats(tmp_path / "plain" / scene.name, 4000)
    left = ["squeue", "-h", "-t", "PENDING,RUNNING", "--name", name]
    wait_until(lambda: not subprocess.run(left, capture_output=True, text=True, check=True).stdout)

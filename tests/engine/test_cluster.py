"""`splat batch --cluster`: the bytes of one process after another, whatever ends meanwhile."""

import asyncio
import gc
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")

import dask
import distributed

from splat_cli.engine import clusters
from splat_cli.errors import UsageError
from splat_cli.run.storage.run_dir import RunDir

# distributed leaves sockets open where no scheduler answers
LEFT_OPEN = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
pytestmark = pytest.mark.filterwarnings(LEFT_OPEN)
ROOT = Path(__file__).parents[2]
OPTIONS = ["--device", "cpu", "--save-at", "", "--no-report"]
SLURM = """#!/bin/sh
# sbatch: runs the job at once, and says its number as SLURM does; the file of the job is removed then
job=$(cat "$1")
setsid sh -c "$job" >>{log} 2>&1 </dev/null & echo "Submitted batch job $!"
"""
CANCEL = """#!/bin/sh
kill -- "-$1"
"""


@pytest.fixture(autouse=True)
def collected():
    """Sockets that a test leaves open are closed, and warned of, before the next test."""
    yield
    gc.collect()


@contextmanager
def started(*arguments, **variables):
    """`splat batch`, in a group of processes of its own as a terminal would make one; killed at the end."""
    command = [sys.executable, "-m", "splat_cli", "batch", *map(str, arguments), *OPTIONS]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT), **variables}, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def until(condition, process):
    """Waits for a condition, as long as the process runs."""
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def descendants(process):
    return psutil.Process(process.pid).children(recursive=True)


def job_processes(process):
    """The processes of jobs that run."""
    return [one for one in descendants(process) if "splat_cli.child_process" in one.cmdline()]


def assert_gone(processes):
    assert psutil.wait_procs(processes, timeout=30)[1] == []


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
    with started(scenes, "-o", out, "--cluster", "local:2") as process:
        until(lambda: list((out / "long" / "checkpoints").glob("*.npz")), process)
        (child,) = (one for one in job_processes(process) if str(out / "long") in one.cmdline())
        child.suspend()  # not to end before its worker does
        before = descendants(process)
        child.parent().kill()
        child.resume()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "long: runs on " in err
    assert "long: resumed on " in err
    for name, steps in (("long", 400), ("short", 20)):
        assert splats(out / name, steps) == splats(tmp_path / "plain" / name, steps)
    assert_gone(before)


def test_interrupt_ends_all_processes_and_saves(scene, tmp_path):
    out = tmp_path / "out"
    run = RunDir(out / scene.name)
    with started(scene, "-o", out, "--cluster", "local:1", "--steps", "1000000") as process:
        until(run.log_path.is_file, process)
        before = descendants(process)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert err.splitlines()[-1] == "Interrupted; the same command again goes on with what is left"
    assert "Traceback" not in err
    assert_gone(before)
    assert len(run.saved_steps()) == 1


def test_slurm(scene, tmp_path):
    pytest.importorskip("dask_jobqueue", reason="SLURM needs the extra `cluster`")
    for name, text in (("sbatch", SLURM.format(log=tmp_path / "slurm.log")), ("scancel", CANCEL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    settings = tmp_path / "slurm.toml"
    settings.write_text('jobs = 1\nmemory = "2GB"\ninterface = "lo"\nwalltime = "00:05:00"\n')
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with started(scene, "-o", tmp_path / "out", "--steps", 3, "--cluster", settings, PATH=path) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err + (tmp_path / "slurm.log").read_text()
    assert RunDir(tmp_path / "out" / scene.name).result()["steps"] == 3


@pytest.fixture
def batch(splat, scene, tmp_path):
    """Runs `splat batch --cluster`; returns exit code and message."""

    def call(cluster):
        result = splat("batch", scene, "-o", tmp_path / "out", "--cluster", cluster, *OPTIONS)
        return result.code, result.err.strip().splitlines()[-1]

    return call


def test_unreachable_cluster_is_told(batch, monkeypatch):
    monkeypatch.setattr(clusters, "_TIMEOUT", 0.2)
    code, message = batch("tcp://127.0.0.1:9")
    assert code == 2
    assert message.startswith("Error: no Dask scheduler answers at tcp://127.0.0.1:9 (")
    assert "start `dask scheduler`" in message


@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws"])
def test_another_program_that_answers_is_told(batch, scheme, monkeypatch):
    monkeypatch.setattr(clusters, "_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        address = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        code, message = batch(address)
    assert code == 2
    assert message.startswith(f"Error: no Dask scheduler answers at {address} (")


def answer(server):
    """Answers one client as a web server does, and waits until it leaves."""
    with suppress(OSError), server.accept()[0] as client:
        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 40)
        while client.recv(4096):
            pass


def test_unreachable_cluster_is_told_in_a_notebook_too(monkeypatch):
    monkeypatch.setattr(clusters, "_TIMEOUT", 0.2)

    async def cell():
        clusters._check_scheduler("tcp://127.0.0.1:9")

    with (
        pytest.raises(UsageError, match="no Dask scheduler answers") as raised,
        ThreadPoolExecutor(1) as pool,  # the tests' own thread may have a loop already, of a browser
    ):
        pool.submit(lambda: asyncio.run(cell())).result()
    assert "event loop" not in str(raised.value)


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate")
def test_certificates_are_those_of_the_configuration_of_dask(tmp_path):
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a", "-keyout", key, "-out", cert],
        stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    files = {
        f"{side}.{kind}": path for side in ("scheduler", "client") for kind, path in (("cert", cert), ("key", key))
    }
    with (
        dask.config.set({f"distributed.comm.tls.{name}": path for name, path in files.items() | {("ca-file", cert)}}),
        distributed.LocalCluster(
            n_workers=0, protocol="tls://", security=distributed.Security(), dashboard_address=":0"
        ) as cluster,
        clusters.connected_client(cluster.scheduler_address, "cpu", lambda line: None) as client,
    ):
        assert client.scheduler_info()["address"].startswith("tls://")


def test_a_second_cluster_of_this_machine_says_nothing_of_ports():
    """The first has the port of Dask's dashboard; warnings are errors here."""
    with ExitStack() as stack:
        with suppress(OSError):  # another test has it
            stack.enter_context(socket.create_server(("", 8787)))
        assert stack.enter_context(clusters._local_cluster(0, "cpu")).scheduler_address


def test_missing_dask_is_told(batch, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    expected = (2, "Error: --cluster needs Dask: pip install 'splat-cli[cluster]'")
    assert batch("local:2") == batch("tcp://127.0.0.1:9") == expected


@pytest.mark.parametrize("cluster", ["local:0", "local:x", "here", "tcp://host", "tcp://:x", "http://a:80"])
def test_wrong_cluster_is_told(batch, cluster):
    assert batch(cluster) == (
        2, f"Error: --cluster {cluster}: give tcp://HOST:PORT, local:N, or a .toml file for SLURM",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs `jobs`, the number of SLURM jobs, from 1"),
        ("jobs = 0", "needs `jobs`"),
        ("jobs = 2", "there is no `sbatch`: run this command where you submit jobs"),
        ("jobs = ", "slurm.toml"),
    ],
)
def test_wrong_slurm_file_is_told(batch, tmp_path, text, message):
    pytest.importorskip("dask_jobqueue", reason="SLURM needs the extra `cluster`")
    (tmp_path / "slurm.toml").write_text(text)
    code, error = batch(tmp_path / "slurm.toml")
    assert code == 2
    assert message in error


def test_other_version_of_dask_is_told():
    entry = {"packages": {"python": "3.11.7.final.0", "distributed": "2026.1.0"}}
    other = {"packages": {"python": "3.11.2.final.0", "distributed": "2025.1.0"}}
    client = type(
        "Client", (), {"get_versions": lambda self: {"client": entry, "scheduler": entry, "workers": found}}
    )()
    found = {"tcp://one:1": entry}
    clusters._check_versions(client)
    found["tcp://two:1"] = other
    message = "Python 3.11 and distributed 2026.1.0 here, Python 3.11 and distributed 2025.1.0 on tcp://two:1; install"
    with pytest.raises(clusters.UsageError, match=message):
        clusters._check_versions(client)

"""Clusters of --cluster: addresses, certificates, versions, SLURM's file, and messages about mistakes in them."""

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib.util import find_spec

import psutil
import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")

import dask
import distributed

from splat_cli.engine import clusters
from splat_cli.errors import UsageError
from tests.engine.dask_cluster import LEFT_OPEN

NOT_MADE = "ignore:Exception ignored in. <function Cluster.__del__:pytest.PytestUnraisableExceptionWarning"
pytestmark = pytest.mark.filterwarnings(LEFT_OPEN)


@pytest.fixture
def batch(splat, scene, tmp_path):
    """Runs `splat batch --cluster`; returns exit code and message."""

    def call(cluster):
        result = splat("batch", scene, "-o", tmp_path / "out", "--cluster", cluster, "--device", "cpu", "--no-report")
        return result.code, result.err.strip().splitlines()[-1]

    return call


def test_unreachable_cluster_is_reported(batch, monkeypatch):
    monkeypatch.setattr(clusters, "_TIMEOUT", 0.2)
    code, message = batch("tcp://127.0.0.1:9")
    assert code == 2
    assert message.startswith("Error: no Dask scheduler answers at tcp://127.0.0.1:9 (")
    assert "start `dask scheduler`" in message


@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws"])
def test_another_program_that_answers_is_reported(batch, scheme, monkeypatch):
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


def test_unreachable_cluster_is_reported_in_a_notebook_too(monkeypatch):
    monkeypatch.setattr(clusters, "_TIMEOUT", 0.2)

    async def cell():
        clusters._check_scheduler("tcp://127.0.0.1:9")

    with (
        pytest.raises(UsageError, match="no Dask scheduler answers") as raised,
        ThreadPoolExecutor(1) as pool,  # the tests' own thread may already have a browser's event loop
    ):
        pool.submit(lambda: asyncio.run(cell())).result()
    assert "event loop" not in str(raised.value)


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate")
def test_certificates_are_those_of_the_configuration_of_dask(tmp_path):
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a", "-keyout", key, "-out", cert],
        stderr=subprocess.DEVNULL,
        check=True,
    )
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
    """The first cluster uses the port of Dask's dashboard; here, warnings are errors."""
    with ExitStack() as stack:
        with suppress(OSError):  # another test uses it
            stack.enter_context(socket.create_server(("", 8787)))
        assert stack.enter_context(clusters._local_cluster(0, "cpu")).scheduler_address


def _listening():
    """Addresses at which this process and its children listen."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    found = [one for process in processes for one in process.net_connections("inet")]
    return {(one.laddr.ip, one.laddr.port) for one in found if one.status == psutil.CONN_LISTEN}


def test_local_cluster_listens_on_loopback_only():
    """Dask executes code that is sent to its ports, and its HTTP pages ask for no password."""
    before = _listening()
    with clusters._local_cluster(1, "cpu") as cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(1)
        found = _listening() - before
    assert len(found) >= 5  # ports of scheduler, nanny and worker, for tasks and pages
    assert {host for host, _ in found} == {"127.0.0.1"}


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="SLURM needs the extra `cluster`")
def test_pages_of_the_scheduler_of_slurm_jobs_are_on_loopback_only(tmp_path, monkeypatch):
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho Submitted batch job 1\n")
    (tmp_path / "sbatch").chmod(0o700)
    (tmp_path / "scancel").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "slurm.toml").write_text('jobs = 1\nmemory = "1GB"\ninterface = "lo"\n')
    before = _listening()
    with clusters.slurm_cluster(tmp_path / "slurm.toml"):
        assert {host for host, _ in _listening() - before} == {"127.0.0.1"}


def test_missing_dask_is_reported(batch, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    expected = (2, "Error: --cluster needs Dask: pip install 'splat-cli[cluster]'")
    assert batch("local:2") == batch("tcp://127.0.0.1:9") == expected


@pytest.mark.parametrize("cluster", ["local:0", "local:x", "here", "tcp://host", "tcp://:x", "http://a:80"])
def test_wrong_cluster_is_reported(batch, cluster):
    assert batch(cluster) == (
        2,
        f"Error: --cluster {cluster}: give tcp://HOST:PORT, local:N, or a .toml file for SLURM",
    )


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="SLURM needs the extra `cluster`")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs `jobs`, the number of SLURM jobs, from 1"),
        ("jobs = 0", "needs `jobs`"),
        ("jobs = true", "needs `jobs`"),
        ("jobs = 1\nprocesses = 0", "processes = 0: expected a whole number from 1"),
        ("jobs = 1\nmemory = 24", "memory = 24: expected a string, such as memory = "),
        (
            'jobs = 1\njob_extra_directives = "--gres=gpu:1"',
            "expected a list of strings, such as job_extra_directives = [",
        ),
        ("jobs = 1\nworker_extra_args = [3]", "worker_extra_args = [3]: expected a list of strings"),
        ("jobs = 2", "there is no `sbatch`: run this command where you submit jobs"),
        ("jobs = ", "slurm.toml"),
    ],
)
def test_wrong_slurm_file_is_reported(batch, tmp_path, text, message, monkeypatch):
    monkeypatch.setenv("PATH", "")  # hides an installed SLURM
    (tmp_path / "slurm.toml").write_text(text)
    code, error = batch(tmp_path / "slurm.toml")
    assert code == 2
    assert message in error


@pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="SLURM needs the extra `cluster`")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("security = true", "`cryptography` is required"),
        ('log_directory = "/proc/logs"', "No such file or directory"),
        ('memori = "2GB"', "'memori' is not an argument of dask_jobqueue.SLURMCluster; did you mean 'memory'?"),
        ("zzz = 1", "'zzz' is not an argument of dask_jobqueue.SLURMCluster; leave it out"),
        ("n_workers = 5", "n_workers cannot be given: splat sets it; `jobs` is the number of SLURM jobs"),
    ],
)
@pytest.mark.filterwarnings(NOT_MADE)
def test_slurm_file_that_does_not_work_here_is_reported(batch, tmp_path, line, reason, monkeypatch):
    (tmp_path / "sbatch").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "sbatch").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "cryptography", None)
    (tmp_path / "slurm.toml").write_text(f'jobs = 1\nmemory = "1GB"\ninterface = "lo"\n{line}\n')
    code, error = batch(tmp_path / "slurm.toml")
    assert (code, "slurm.toml" in error, reason in error) == (2, True, True), error


def test_ctrl_c_acts_as_before_dask_jobqueue_was_imported(tmp_path, monkeypatch):
    """Its import replaces the handler of SIGINT. This stand-in replaces it in every run of the test."""
    replacing = "import signal, sys\nsignal.signal(signal.SIGINT, lambda *_: sys.exit())\nSLURMCluster = None\n"
    (tmp_path / "dask_jobqueue.py").write_text(replacing)
    (tmp_path / "slurm.toml").write_text("jobs = 2")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delitem(sys.modules, "dask_jobqueue", raising=False)
    before = signal.getsignal(signal.SIGINT)
    with (
        pytest.raises(UsageError, match="there is no `sbatch`"),
        clusters.connected_client(str(tmp_path / "slurm.toml"), "cpu", print),
    ):
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_other_version_of_dask_is_reported():
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

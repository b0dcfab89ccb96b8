"""`--cluster tls://`: certificates come from Dask's configuration, here from environment variables."""

import os
import shutil
import subprocess
import time

import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")

from splat_cli.run.storage.run_dir import RunDir
from tests.engine.dask_cluster import dask_cluster
from tests.subprocesses import SPLAT, finished

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="certificates are made with openssl")
PREFIX = "DASK_DISTRIBUTED__COMM__TLS__"
BOUND = 60.0  # seconds until a refused client must have ended; it takes 1 on an idle machine


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=True)


def _variables(folder, authority):
    """Variables that name a certificate of a new authority."""
    ca, ca_key, key, cert, request = (
        folder / f"{authority}{end}" for end in ("-ca.pem", "-ca.key", ".key", ".pem", ".csr")
    )
    new = ("req", "-newkey", "rsa:2048", "-nodes", "-subj")
    _openssl(*new, f"/CN={authority} authority", "-x509", "-keyout", ca_key, "-out", ca)
    _openssl(*new, f"/CN={authority}", "-keyout", key, "-out", request)
    _openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", cert)
    return {f"{PREFIX}CA_FILE": str(ca), f"{PREFIX}CLIENT__CERT": str(cert), f"{PREFIX}CLIENT__KEY": str(key)}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Variables of two authorities; the cluster knows only the first."""
    folder = tmp_path_factory.mktemp("certificates")
    return {authority: _variables(folder, authority) for authority in ("ours", "other")}


@pytest.fixture(scope="module")
def address(certificates, tmp_path_factory):
    """The address of a cluster with one worker."""
    ca, cert, key = certificates["ours"].values()
    files = (f"--tls-ca-file={ca}", f"--tls-cert={cert}", f"--tls-key={key}")
    with dask_cluster(tmp_path_factory.mktemp("cluster"), 1, *files, scheme="tls") as cluster:
        assert cluster.address.startswith("tls://")
        yield cluster.address


def test_batch_with_certificates(scene, address, certificates, tmp_path):
    options = ("--steps=3", "--device=cpu", "--no-report", f"--cluster={address}")
    done = _finished(certificates["ours"], "batch", scene, "-o", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    assert "tls://" in done.stderr  # the worker's address
    assert RunDir(tmp_path / "out" / scene.name).result()["steps"] == 3


@pytest.mark.parametrize(
    ("authority", "left_out", "reason"),
    [
        (None, None, "(no certificates)"),
        ("ours", "CLIENT__CERT", ""),
        ("other", None, "certificate"),
        ("ours", "CA_FILE", ""),
    ],
)
def test_client_without_access_is_reported_soon(scene, address, certificates, tmp_path, authority, left_out, reason):
    variables = dict(certificates.get(authority, {}))
    if left_out:
        variables[f"{PREFIX}{left_out}"] = certificates["other"][f"{PREFIX}{left_out}"]
    begin = time.monotonic()
    done = _finished(variables, "batch", scene, "-o", tmp_path / "out", "--device=cpu", f"--cluster={address}")
    assert time.monotonic() - begin < BOUND
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: no Dask scheduler answers at {address} (")
    assert reason in line
    assert f"name certificates that it accepts in {PREFIX}CA_FILE, {PREFIX}CLIENT__CERT, {PREFIX}CLIENT__KEY" in line


def test_address_without_tls_is_reported(scene, address, tmp_path):
    plain = address.replace("tls:", "tcp:")
    done = _finished({}, "batch", scene, "-o", tmp_path / "out", "--device=cpu", f"--cluster={plain}")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: no Dask scheduler answers at {plain} (")


def _finished(variables, *arguments):
    return finished([*SPLAT, *arguments], env={**os.environ, **variables})

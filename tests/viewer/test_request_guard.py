"""Requests that the viewer's server refuses."""

import http.client
import sys

import pytest

pytest.importorskip("viser", reason="the live viewer needs viser (extra viewer)")

from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from splat_cli.errors import UsageError
from splat_cli.processes.child_process import child_environment
from splat_cli.terminal.console import Display
from splat_cli.viewer import request_guard, server
from splat_cli.viewer.request_guard import own_names, refusal
from splat_cli.viewer.server import serving
from tests.subprocesses import HANG, finished


@pytest.fixture(scope="module")
def port():
    """Port of a server on this machine."""
    with serving("127.0.0.1", 18180, Display()) as running:
        yield running.get_port()


def open_socket(port, **options):
    import viser

    protocol = f"viser-v{viser.__version__}"
    with connect(f"ws://127.0.0.1:{port}", subprotocols=[protocol], proxy=None, **options) as socket:
        return socket.recv(timeout=HANG)


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost:1", "null", "http://127.0.0.1.evil.example"]
)
def test_pages_of_other_origins_are_refused(port, origin):
    with pytest.raises(InvalidStatus) as refused:
        open_socket(port, origin=origin)
    assert refused.value.response.status_code == 403


def test_own_pages_and_programs_are_answered(port):
    assert open_socket(port, origin=f"http://127.0.0.1:{port}")
    assert open_socket(port)


def test_invalid_requests_print_nothing(tmp_path):
    """Runs in a separate process, because pytest captures the output of loggers."""
    program = """
import socket
from splat_cli.terminal.console import Display
from splat_cli.viewer.server import serving
with serving("127.0.0.1", 18380, Display()) as running:
    for content in (bytes(1000), b"GET / HTTP/9.9\\r\\n\\r\\n", b"GET " + 100_000 * b"a"):
        with socket.create_connection(("127.0.0.1", running.get_port())) as client:
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass
"""
    ended = finished([sys.executable, "-c", program], env=child_environment(), cwd=tmp_path)
    assert ended.returncode == 0
    assert ended.stderr.splitlines()[1:] == []  # nothing after the address


@pytest.mark.parametrize("path", ["/" + 300 * "a", "/" + 7000 * "a", "/" + 3500 * "a/"])
def test_a_path_longer_than_file_names_is_refused(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    connection.request("GET", path)
    assert connection.getresponse().status == http.HTTPStatus.REQUEST_URI_TOO_LONG
    connection.close()


def test_a_long_query_is_answered(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    connection.request("GET", "/?view=" + 1000 * "a")
    assert connection.getresponse().status == http.HTTPStatus.OK
    connection.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:9000", 200), ("[::1]:80", 200), ("evil.example", 403), ("evil.example:8080", 403), ("", 403)],
)
def test_pages_under_foreign_names_are_refused(port, host, status):
    """DNS rebinding: the name of a page's server resolves to this machine. Tunnels change only the port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    connection.request("GET", "/", headers={"Host": host})
    response = connection.getresponse()
    assert response.status == status
    if status == 200:
        assert response.getheader("Content-Security-Policy") == "frame-ancestors 'self'"
    connection.close()


@pytest.mark.parametrize(
    ("host", "origin", "refused"),
    [
        ("localhost:9000", "http://localhost:9000", False),
        ("localhost", "https://localhost:443", False),
        ("LOCALHOST:80", "http://localhost", False),
        ("10.0.0.7:8080", "http://10.0.0.7:8080", False),
        ("10.0.0.7:8080", "http://6.6.6.6:8080", True),
        ("localhost:8080", "http://localhost:8081", True),
        ("localhost:8080", "file://", True),
        ("localhost:8080", "http://evil.example@localhost:8080", True),
        ("localhost:99999", "http://localhost:99999", True),
        ("localhost@evil.example", None, True),
        ("localhost.evil.example", None, True),
        ("box:8080", "http://box:8080", False),
    ],
)
def test_host_and_origin(host, origin, refused):
    headers = Headers(Host=host) if origin is None else Headers(Host=host, Origin=origin)
    assert (refusal(headers, frozenset({"box"})) is not None) == refused


def test_repeated_headers_are_refused():
    for name in ("Host", "Origin"):
        headers = Headers([("Host", "localhost"), ("Origin", "http://localhost")])
        headers[name] = headers[name]
        assert refusal(headers, frozenset())


def test_machine_name_is_trusted_if_others_can_connect(monkeypatch):
    monkeypatch.setattr(request_guard.socket, "gethostname", lambda: "Box")
    assert own_names("0.0.0.0") == {"0.0.0.0", "box", "box.local"}
    assert own_names("127.0.0.1") == {"127.0.0.1"}


def test_viser_that_cannot_be_guarded_is_refused(monkeypatch):
    from contextlib import nullcontext

    monkeypatch.setattr(server, "guarded_websockets", lambda names, token: nullcontext())
    with pytest.raises(UsageError, match="viser"), serving("127.0.0.1", 18280, Display()):
        pytest.fail("it serves every page")


@pytest.fixture
def open_server(monkeypatch):
    """(port, token) from the address of a server that other machines can reach; this machine counts as remote."""
    said = []
    monkeypatch.setattr(server, "is_loopback", lambda host: False)
    display = Display()
    monkeypatch.setattr(display, "say", said.append)
    with serving("127.0.0.1", 18380, display) as running:
        address, _, token = said[0].partition("/?token=")
        assert address == f"Viewer: http://127.0.0.1:{running.get_port()}"
        assert len(token) >= 22
        yield running.get_port(), token


def _get(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_other_machines_need_the_token(open_server):
    port, token = open_server
    for path in ("/", "/?token=", f"/?token={token[:-1]}", f"/?token={token}x", f"/{token}", f"/?tokens={token}"):
        assert _get(port, path).status == 403
    page = _get(port, f"/?token={token}")
    assert page.status == 200
    cookie = page.getheader("Set-Cookie").partition(";")[0]
    assert _get(port, "/", Cookie=f"other=1; {cookie}").status == 200
    assert _get(port, "/", Cookie=cookie[:-1]).status == 403


def test_a_socket_without_the_token_is_refused(open_server):
    port, token = open_server
    cookie = _get(port, f"/?token={token}").getheader("Set-Cookie").partition(";")[0]
    for headers in ({}, {"Cookie": "splat=1"}, {"Cookie": cookie[:-1]}, {"Cookie": "=;;=,{}"}):
        with pytest.raises(InvalidStatus) as refused:
            open_socket(port, additional_headers=headers)
        assert refused.value.response.status_code == 403
    assert open_socket(port, additional_headers={"Cookie": f'theirs={{"a": 1}}; {cookie}'})


def test_the_token_does_not_open_the_server_to_foreign_pages(open_server):
    port, token = open_server
    assert _get(port, f"/?token={token}", Origin="https://evil.example").status == 403
    assert _get(port, f"/?token={token}", Host="evil.example").status == 403


def test_loopback_needs_no_token(port):
    page = _get(port, "/")
    assert (page.status, page.getheader("Set-Cookie")) == (200, None)

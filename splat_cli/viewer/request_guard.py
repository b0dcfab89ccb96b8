"""Checks requests to the viewer's server before viser handles them, and adds a script to viser's page.

Any page that the user visits while a viewer runs on the same machine could attack it in two ways. Browsers let every
page open a websocket to localhost: they send its `Origin` and leave the check to the server. Also, a page's owner can
make its host name resolve to 127.0.0.1, so that it has the server's origin (DNS rebinding; the name is in `Host`).
Therefore `Host` must be a name that strangers cannot own, and `Origin`, if present, must be the server itself.

If other machines can connect, a request also needs the server's token: in the query of its address (`/?token=...`), or
in the cookie that the response to such a request sets for the page's files and its websocket.

The script (static/live.js) slows down rotation by dragging and changes how splats are drawn.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import ipaddress
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from splat_cli.errors import UsageError

if TYPE_CHECKING:
    from websockets.datastructures import Headers
    from websockets.http11 import Response


DRAG_SHARE = 0.4
"""Rotation of the camera relative to viser's, for the same movement of the pointer."""
_SCRIPT = (
    "<script>"
    + (Path(__file__).parent / "static" / "live.js").read_text().replace("SHARE", str(DRAG_SHARE))
    + "</script>"
)


def add_script(response: Response) -> None:
    """Insert the script at the head of viser's page; other responses are unchanged."""
    if not response.headers.get("Content-Type", "").startswith("text/html"):
        return
    body = _with_script(bytes(response.body or b""), response.headers.get("Content-Encoding") == "gzip")
    response.body = body
    del response.headers["Content-Length"]
    response.headers["Content-Length"] = str(len(body))


@lru_cache(2)
def _with_script(body: bytes, is_gzip: bool) -> bytes:
    page = gzip.decompress(body) if is_gzip else body
    page = page.replace(b"<head>", b"<head>" + _SCRIPT.encode(), 1)
    return gzip.compress(page) if is_gzip else page


_DEFAULT_PORTS = {"http": 80, "https": 443}
_NO_FRAMES = "frame-ancestors 'self'"
"""Prevents other pages from embedding the viewer in a frame (clickjacking)."""
_FOREIGN = "foreign.invalid"
"""A reserved host name (RFC 2606)."""
_TIMEOUT = 5.0
_MAX_PATH = 200
"""Maximum length of a request's path, in characters; the system refuses file names over 255."""


def own_names(host: str) -> frozenset[str]:
    """Host names of a server that listens at `host`, in addition to localhost and addresses."""
    names = {host}
    if not is_loopback(host):
        machine = socket.gethostname()
        names |= {machine, f"{machine}.local"}
    return frozenset(name.lower() for name in names)


def is_loopback(host: str) -> bool:
    """Whether a server at `host` is reachable from this machine only."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def refusal(headers: Headers, names: frozenset[str]) -> str | None:
    """Reason to refuse a request with these headers, or None.

    Host must be an IP address, localhost or one of `names`, with any port (SSH tunnels change it). Origin must be
    absent, as from programs other than browsers, or the same host and port.
    """
    hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
    if len(hosts) != 1 or not _is_trusted(hosts[0], names):
        return f"host {', '.join(hosts) or 'missing'}: expected localhost, an address or the machine's name"
    if len(origins) > 1 or (origins and not _is_same(origins[0], hosts[0])):
        return f"origin {', '.join(origins)}: expected the page of this server"
    return None


def new_token() -> str:
    """128 random bits, as text for an address."""
    return secrets.token_urlsafe(16)


def has_token(path: str, headers: Headers, token: str) -> bool:
    """Whether a request for `path` has the token, in its query or as a cookie."""
    cookies = [pair.strip().partition("=") for line in headers.get_all("Cookie") for pair in line.split(";")]
    found = [value for name, _, value in cookies if name == _cookie_name(token)]
    with suppress(ValueError):  # not an address
        found += parse_qs(urlsplit(path).query).get("token", [])
    return any(secrets.compare_digest(one.encode("utf-8", "surrogateescape"), token.encode()) for one in found)


def _cookie_name(token: str) -> str:
    """Name of this server's cookie, from its token: browsers send a host's cookies to all of its ports."""
    return f"splat-{hashlib.sha256(token.encode()).hexdigest()[:8]}"


@contextmanager
def guarded_websockets(names: frozenset[str], token: str | None) -> Iterator[None]:
    """Context in which servers opened with websockets check requests with `refusal` and `has_token`.

    viser opens its server itself and has no option for this. Therefore this wraps the function that viser calls;
    `require_guard` tests the effect.
    """
    import websockets.asyncio.server as module

    original: Any = module.serve

    def serve(*args: Any, process_request: Any = None, **options: Any) -> Any:
        def checked(connection: Any, request: Any) -> Any:
            reason = refusal(request.headers, names)
            if not reason and token and not has_token(request.path, request.headers, token):
                reason = "token missing or wrong: open the address that splat printed"
            if reason:
                return connection.respond(HTTPStatus.FORBIDDEN, f"splat: refused, {reason}\n")
            if len(request.path.partition("?")[0]) > _MAX_PATH:  # viser looks up a file of this name
                return connection.respond(HTTPStatus.REQUEST_URI_TOO_LONG, "splat: the address is too long\n")
            response = process_request(connection, request) if process_request else None
            if response is not None:
                add_script(response)
                response.headers["Content-Security-Policy"] = _NO_FRAMES
                response.headers["Referrer-Policy"] = "no-referrer"
                if token:
                    response.headers["Set-Cookie"] = f"{_cookie_name(token)}={token}; HttpOnly; SameSite=Strict; Path=/"
            return response

        return original(*args, process_request=checked, **options)

    vars(module)["serve"] = serve
    try:
        yield
    finally:
        vars(module)["serve"] = original


def require_guard(host: str, port: int) -> None:
    """Send requests of other origins to the server; UsageError if it accepts them."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    here = f"[{address}]" if ":" in address else address
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    foreign = ({"Host": _FOREIGN}, {"Host": f"{here}:{port}", "Origin": f"http://{_FOREIGN}", **upgrade})
    if any(_status(address, port, headers) != HTTPStatus.FORBIDDEN for headers in foreign):
        raise UsageError(
            "this version of viser answers pages of any origin and could not be protected: pip install 'viser==1.1.*'"
        )


def _status(address: str, port: int, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(address, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", "/", headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _is_trusted(host: str, names: frozenset[str]) -> bool:
    name = _split(f"//{host}")[0]
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return name == "localhost" or name.endswith(".localhost") or name in names


def _is_same(origin: str, host: str) -> bool:
    """Whether the header `Origin` has the host and port of the header `Host`."""
    scheme = origin.partition("://")[0]
    default = _DEFAULT_PORTS.get(scheme)
    if default is None:
        return False
    (name, port), (own_name, own_port) = _split(origin), _split(f"//{host}")
    return bool(name) and (name, port or default) == (own_name, own_port or default)


def _split(address: str) -> tuple[str, int | None]:
    """(host name in lower case, port), or ("", None) if it is not an address."""
    with suppress(ValueError):
        parts = urlsplit(address)
        if parts.username is None and parts.password is None and not (parts.path or parts.query or parts.fragment):
            return parts.hostname or "", parts.port
    return "", None

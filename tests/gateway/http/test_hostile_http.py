"""Bytes that are no request, or a bad one, get a status from 400 to 499, and leave no traceback."""

from __future__ import annotations

import gzip
import logging
import socket
from collections.abc import Iterator

import pytest

from muster.gateway.http import faults
from muster.gateway.http.server import gateway_app, start_http
from tests.fuzz.target import Problems
from tests.gateway.fault_client import PROPERTIES
from tests.gateway.serving import Serving

__all__ = ["PROPERTIES"]

JSON, YAML = "application/json", "application/yaml"
CHECK = "/v1/faults/plan/check"
FILLED = b"a" * 20_000


def post(body: bytes, content_type: str = JSON, path: str = "/v1/faults", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n{more}\r\n".encode() + body


def get(path: str, more: bytes = b"") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n".encode() + more + b"\r\n"


GZIP = "Content-Encoding: gzip\r\n"
BAD = {
    "long path": (get("/" + FILLED.decode()), 400),
    "long header": (get("/healthz", b"X: " + FILLED + b"\r\n"), 400),
    "many headers": (get("/healthz", b"".join(b"X%d: a\r\n" % number for number in range(10_000))), 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    "long body": (post(b" " * (1 << 20)), 413),
    "gzip bomb": (post(gzip.compress(b" " * (64 << 20)), more=GZIP), 413),
    "no gzip": (post(b"{}", more=GZIP), 400),
    "bad chunk": (post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"ZZ\r\n", 400),
    "no UTF-8": (post(b'{"action": "\xff"}'), 400),
    "deep array": (post(b"[" * 100_000), 400),
    "deep object": (post(b'{"a":' * 40_000), 400),
    "long number": (post(b'{"action":"delay","delay_ms":' + b"9" * 5_000 + b"}"), 400),
    "infinite": (post(b'{"action":"delay","delay_ms":1e400}'), 400),
    "surrogate": (post(b'{"action":"drop","group":"\\ud800"}'), 400),
    "surrogate as a name": (post(b'{"\\ud800":1}'), 400),
    "plan of null": (post(b"null", path=CHECK), 400),
    "names that are lists": (post(b'{"steps":[{"name":[]}]}', path=CHECK), 400),
    "deep YAML": (post(b"[" * 5_000, YAML, CHECK), 400),
    "YAML that is code": (post(b"!!python/object/apply:os.system ['true']", YAML, CHECK), 400),
    "YAML with a date that is none": (post(b"steps: [{at: 2000-99-99}]", YAML, CHECK), 400),
    "charset": (post(b"{}", "application/json; charset=none"), 400),
    "fault's id": (b"DELETE /v1/faults/%ff%00%ed%a0%80 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 404),
    "group": (get("/v1/groups/history?group=%ff%00&limit=%00"), 400),
    "credentials": (get("/v1/faults", b"Authorization: Basic \xff\xff\r\n"), 401),
}


@pytest.fixture
def problems() -> Iterator[Problems]:
    """Require that nothing is logged as an error, or with a traceback."""
    found = Problems()
    logging.getLogger().addHandler(found)
    yield found
    logging.getLogger().removeHandler(found)
    assert not found.found


def response(port: int, data: bytes, size: int = 1 << 30) -> bytes:
    """Send the data; return at least that many bytes, or all until the server closes the connection."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        client.settimeout(30)
        try:
            client.sendall(data)
            while len(got) < size and (part := client.recv(1 << 16)):
                got += part
        except ConnectionError:  # closed before everything was sent
            pass
    return got


def port_of(full: Serving) -> int:
    return int(full.http_url.rpartition(":")[2])


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_refused(full: Serving, problems: Problems, name: str) -> None:
    data, status = BAD[name]
    assert int(response(port_of(full), data).split()[1]) == status
    assert full.http("/healthz")[0] == 200


def test_an_odd_accept_gets_the_default_format(full: Serving, problems: Problems) -> None:
    data = response(port_of(full), get("/metrics", b"Accept: application/openmetrics-text; version=x\r\n"))
    assert data.startswith(b"HTTP/1.1 200")
    assert b"Content-Type: text/plain; version=0.0.4" in data


def test_a_body_that_does_not_come_ends_the_request(
    full: Serving, problems: Problems, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "_BODY_S", 0.1)
    data = post(b"{}").replace(b"Content-Length: 2", b"Content-Length: 9")
    assert b"408 Request Timeout" in response(port_of(full), data, 100)


def test_a_request_that_does_not_come_ends_the_connection(full: Serving, problems: Problems) -> None:
    runner, port = full.run(start_http(gateway_app(full.gateway), "127.0.0.1", 0, idle_s=0.2))
    try:
        assert response(port, b"") == b""
        assert response(port, b"GET /healthz HTTP/1.1\r\nHost:") == b""
        assert response(port, b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n").startswith(b"HTTP/1.1 200")
    finally:
        full.run(runner.cleanup())

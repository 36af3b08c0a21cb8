"""Requests to the HTTP port of a gateway whose address is known."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from muster.actors.runtime.settings import CLUSTER_ID_HEADER
from muster.gateway.client.errors import InvalidClientConfig, MusterError
from muster.gateway.security.mechanism_names import PLAIN

if TYPE_CHECKING:
    from muster.gateway.client.security import Security

METRICS = "/metrics"
NO_ADDRESS = "no gateway has an HTTP address"
_CONNECT_S = 2.0
TIMEOUT_S = 30.0


class NoHttpResponse(MusterError):
    """Raised if no gateway responds over HTTP."""


class OtherCluster(OSError):
    """Raised if a server responds that is no gateway of the expected cluster."""


class GatewayUrl(NamedTuple):
    """Where a gateway is expected."""

    url: str
    """With or without /metrics."""
    cluster_id: str = ""
    """Empty: any cluster."""

    @property
    def base(self) -> str:
        """The URL without the path of a request."""
        return self.url.strip().rstrip("/").removesuffix(METRICS)


def bases(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the URLs without the path of a request, and without empty ones."""
    return tuple(base for url in urls if (base := GatewayUrl(url).base))


class HttpError(MusterError):
    """Raised if a gateway responds with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def get(
    gateway: GatewayUrl,
    path: str,
    parameters: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    security: Security | None = None,
) -> dict[str, Any]:
    """GET the path from the gateway. Returns its JSON. Raises HttpError, OSError, HTTPException, ValueError."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    connection = _connect(gateway.base, timeout_s, security)
    target = f"{urlsplit(gateway.base).path}{path}{query}"
    return _response(connection, "GET", target, cluster_id=gateway.cluster_id, security=security)


def send(
    gateways: Iterable[GatewayUrl], method: str, path: str, body: Any = None, security: Security | None = None
) -> dict[str, Any]:
    """Send the request to the first of these gateways that accepts a connection. Returns its JSON.

    NoHttpResponse, HttpError.

    What one gateway may have done is not repeated on another one.
    """
    failures: list[str] = []
    for gateway in gateways:
        base = gateway.base
        try:
            connection = _connect(base, security=security)
        except (OSError, ValueError) as error:
            failures.append(f"{base} ({getattr(error, 'strerror', None) or error})")
            continue
        try:
            target = f"{urlsplit(base).path}{path}"
            return _response(connection, method, target, body, gateway.cluster_id, security)
        except OtherCluster as error:
            failures.append(f"{base} ({error})")
        except (OSError, HTTPException, ValueError) as error:
            raise NoHttpResponse(f"{base} does not respond: {str(error) or type(error).__name__}") from error
    raise NoHttpResponse(f"no gateway listens at {', '.join(failures)}" if failures else NO_ADDRESS)


def _connect(base: str, timeout_s: float = TIMEOUT_S, security: Security | None = None) -> HTTPConnection:
    """Return a connection on which nothing has been sent. Raises OSError, or ValueError if there cannot be one.

    ``timeout_s``: of each read and write from then on.
    """
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not a URL such as http://HOST:PORT")
    connection = HTTPConnection(parts.hostname, parts.port, timeout=_CONNECT_S)
    if parts.scheme == "https":
        context = None if security is None else security.tls.context()
        connection = HTTPSConnection(parts.hostname, parts.port, timeout=_CONNECT_S, context=context)
    connection.connect()
    connection.sock.settimeout(timeout_s)
    return connection


def _response(
    connection: HTTPConnection,
    method: str,
    target: str,
    body: Any = None,
    cluster_id: str = "",
    security: Security | None = None,
) -> dict[str, Any]:
    """Return the JSON object of the response, and close the connection. Raises HttpError, OSError, HTTPException or
    ValueError.

    HttpError only for an error in Muster's form: another server's says nothing about Muster.
    """
    data, headers = (None, {}) if body is None else (json.dumps(body).encode(), {"Content-Type": "application/json"})
    with contextlib.closing(connection):
        connection.request(method, target, data, headers | _headers(connection, cluster_id, security))
        response = connection.getresponse()
        text = response.read()
    _check(response, text, cluster_id)
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("the response is no JSON object")
    return found


@contextlib.contextmanager
def lines(
    gateway: GatewayUrl,
    path: str,
    parameters: Sequence[tuple[str, str]],
    headers: Mapping[str, str],
    *,
    silence_s: float,
    security: Security | None = None,
) -> Iterator[Iterator[str]]:
    """GET a response that comes line by line. Raises like :func:`get`; OSError as well if it is silent for too long."""
    connection = _connect(gateway.base, _CONNECT_S * 2, security)
    with contextlib.closing(connection):
        target = f"{urlsplit(gateway.base).path}{path}?{urlencode(parameters)}"
        connection.request("GET", target, None, {**headers, **_headers(connection, gateway.cluster_id, security)})
        response = connection.getresponse()
        _check(response, b"" if response.status < 300 else response.read(), gateway.cluster_id)
        connection.sock.settimeout(silence_s)
        yield (line.decode(errors="replace").rstrip("\r\n") for line in response)


def _headers(connection: HTTPConnection, cluster_id: str, security: Security | None) -> dict[str, str]:
    headers = credentials(security, is_private=isinstance(connection, HTTPSConnection))
    return headers | ({CLUSTER_ID_HEADER: cluster_id} if cluster_id else {})


def _check(response: HTTPResponse, text: bytes, cluster_id: str) -> None:
    if cluster_id and response.headers.get(CLUSTER_ID_HEADER) != cluster_id:
        raise OtherCluster("no gateway of this cluster")
    if response.status >= 300:
        if (error := _error_of(text)) is None:
            raise ValueError(f"HTTP {response.status}, not from Muster")
        raise HttpError(response.status, error)


def credentials(security: Security | None, *, is_private: bool) -> dict[str, str]:
    """Return the header of the environment or the client's login, which is not sent where it could be overheard.

    MUSTER_HTTP_TOKEN, or the content of MUSTER_HTTP_TOKEN_FILE; else MUSTER_HTTP_USER and MUSTER_HTTP_PASSWORD; else
    the user of ``security``. A SCRAM password, which SCRAM never sends, needs TLS (``is_private``). Raises
    InvalidClientConfig.
    """
    environ = os.environ
    token = environ.get("MUSTER_HTTP_TOKEN")
    if not token and (file := environ.get("MUSTER_HTTP_TOKEN_FILE")):
        try:
            token = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidClientConfig(f"MUSTER_HTTP_TOKEN_FILE={file} cannot be read: {error}") from error
    if token:
        return {"Authorization": f"Bearer {token}"}
    user, password = environ.get("MUSTER_HTTP_USER"), environ.get("MUSTER_HTTP_PASSWORD")
    login = None if security is None else security.login
    if not (user and password) and login is not None and (is_private or login.mechanism == PLAIN):
        user, password = login.user, login.password
    if not (user and password):
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def _error_of(text: bytes) -> str | None:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return None

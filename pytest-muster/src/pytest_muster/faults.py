"""The fault API for Python programs and tests: synchronous, over HTTP, from any machine that reaches a gateway.

The gateway defines the faults and checks every fault and every plan, so this client needs no newer version when
Muster has new faults. They are listed in docs/faults.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Callable, Union
from urllib.parse import quote, urlsplit

Plan = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""A plan: the path of its YAML file, or the content of such a file."""
_CONNECT_S = 5.0
_JSON, _YAML = "application/json", "application/yaml"
_INVALID, _UNAUTHENTICATED, _REFUSED, _NOT_FOUND = 400, 401, 403, 404
_PROPERTY = "fault.injection.enable"


class FaultError(Exception):
    """The fault was not injected, listed or cleared; the message says why."""


class FaultsDisabled(FaultError):
    """The cluster was started without ``fault.injection.enable=true``: every call is refused."""


class FaultsForbidden(FaultError, PermissionError):
    """The token is missing or invalid, or its user may not: listing needs DESCRIBE on the cluster, changes ALTER."""


class InvalidFault(FaultError, ValueError):
    """The fault or the plan is invalid. ``problems`` has a text for each problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class UnknownTarget(FaultError, LookupError):
    """No fault has that id, or no running actor has that name."""


class Unreachable(FaultError, ConnectionError):
    """No gateway answered, or the controller did not answer it. It is unknown whether the fault was injected."""


class FaultClient:
    """Injects, lists and clears the faults of one cluster.

    Every method raises FaultsDisabled unless the cluster was started with ``fault.injection.enable=true``,
    FaultsForbidden without the right, and Unreachable without an answer. A call goes to the first gateway that accepts
    a connection, within 5 s each. It is never repeated on another gateway, since the first one may have executed it.
    """

    def __init__(self, *http_urls: str, timeout_s: float = 30.0, token: str | None = None) -> None:
        """``http_urls``: of gateways, as ``muster up`` prints them (``metrics=``), with or without /metrics.

        ``timeout_s``: for a response. ``token``: a bearer token, where the HTTP port requires one; without, that of the
        environment variable MUSTER_HTTP_TOKEN. Raises ValueError without a URL, or for one that is not http or https.
        """
        urls = [url.strip().rstrip("/") for given in http_urls for url in given.split(",") if url.strip()]
        if not urls:
            raise ValueError("no URL of a gateway is given")
        self._urls = [_checked(url[: -len("/metrics")] if url.endswith("/metrics") else url) for url in urls]
        self._timeout_s = timeout_s
        self._token = token or os.environ.get("MUSTER_HTTP_TOKEN")

    def inject(self, fault: str | Mapping[str, Any], **fields: Any) -> str:
        """Inject the fault, given whole or as its action and fields, and return its id.

        When this returns, it is in force on every live gateway. Raises InvalidFault; UnknownTarget for an actor that
        is not running.
        """
        if isinstance(fault, str):
            fault = {"action": fault, **fields}
        elif fields:
            raise TypeError("fields go with an action, not with a whole fault")
        return str(self._call("POST", "/v1/faults", dict(fault))["id"])

    def faults(self) -> list[dict[str, Any]]:
        """Return the faults in force: id, fault, matched, hits, injected_ms, expires_at_ms."""
        found: list[dict[str, Any]] = self._call("GET", "/v1/faults")["faults"]
        return found

    def clear(self, fault_id: str | None = None) -> list[str]:
        """End the fault, or all of them; return the ids of the ended ones. Raises UnknownTarget for an unknown id."""
        path = "/v1/faults" if fault_id is None else f"/v1/faults/{quote(fault_id, safe='')}"
        cleared: list[str] = self._call("DELETE", path)["cleared"]
        return cleared

    def kill(self, actor: str | None = None, *, group: str | None = None) -> str:
        """SIGKILL the actor's process, or that of the offsets actor that owns the group."""
        return self.inject("kill", actor=actor, group=group)

    def pause(self, actor: str | None = None, *, group: str | None = None, expires_ms: int | None = None) -> str:
        """SIGSTOP the actor's process, until :meth:`resume`, :meth:`clear`, or ``expires_ms``."""
        return self.inject("pause", actor=actor, group=group, expires_ms=expires_ms)

    def resume(self, actor: str | None = None, *, group: str | None = None) -> str:
        """SIGCONT the actor's process; this ends its pause and slow faults."""
        return self.inject("continue", actor=actor, group=group)

    def slow(
        self,
        actor: str | None = None,
        speed: float = 0.5,
        *,
        group: str | None = None,
        expires_ms: int | None = None,
    ) -> str:
        """Let the actor's process run only ``speed`` of the time (0 < speed < 1)."""
        return self.inject("slow", actor=actor, group=group, speed=speed, expires_ms=expires_ms)

    def run(self, plan: Plan, on_step: Callable[[Mapping[str, Any], str], None] = lambda step, result: None) -> None:
        """Execute the steps of a plan at their times; returns after the last.

        ``on_step`` gets each step (``step``, its number in the file; ``at_ms``; ``does``, a text; ``fault`` or
        ``clear``) and its result. InvalidFault before the first step, with everything that is wrong; OSError for an
        unreadable file. A refused step ends the plan with its FaultError. The faults that the plan injected are cleared
        then, and when it is interrupted. Those of a completed plan stay until they expire or are cleared.
        """
        body = dict(plan) if isinstance(plan, Mapping) else Path(plan).read_bytes()
        steps = self._call("POST", "/v1/faults/plan/check", body)["steps"]
        ids: dict[int, str] = {}
        started_s = time.monotonic()
        try:
            for step in steps:
                time.sleep(max(0.0, started_s + step["at_ms"] / 1000 - time.monotonic()))
                on_step(step, self._do(step, ids))
        except BaseException:
            for fault_id in ids.values():
                with contextlib.suppress(FaultError):
                    self.clear(fault_id)
            raise

    def _do(self, step: Mapping[str, Any], ids: dict[int, str]) -> str:
        """``ids``: of the faults that steps have injected, by the number of the step."""
        if "fault" in step:
            return ids.setdefault(step["step"], self.inject(step["fault"]))
        number = step["clear"]
        if number != "all" and number not in ids:
            raise UnknownTarget(f"step {number} cannot be cleared before it is injected")
        try:
            return "cleared " + (", ".join(self.clear(ids.get(number))) or "nothing")
        except UnknownTarget:
            return "was over already"

    def _call(self, method: str, path: str, body: Mapping[str, Any] | bytes | None = None) -> dict[str, Any]:
        status, response = self._request(method, path, body)
        if status >= 300:
            raise _refused(status, response)
        return response

    def _request(self, method: str, path: str, body: Mapping[str, Any] | bytes | None) -> tuple[int, dict[str, Any]]:
        """Status and response of the first gateway that accepts a connection; empty if no JSON object.

        Raises Unreachable.
        """
        data, headers = _content(body)
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        failures: list[str] = []
        for url in self._urls:
            try:
                connection = _connect(url, min(_CONNECT_S, self._timeout_s))
            except (OSError, UnicodeError) as error:  # UnicodeError: an impossible host name
                failures.append(f"{url} ({getattr(error, 'strerror', None) or error})")
                continue
            with contextlib.closing(connection):
                try:
                    connection.sock.settimeout(self._timeout_s)
                    connection.request(method, f"{urlsplit(url).path}{path}", data, headers)
                    response = connection.getresponse()
                    status, found = response.status, _json_object(response.read())
                except (OSError, HTTPException) as error:
                    raise Unreachable(f"{url} does not respond: {str(error) or type(error).__name__}") from error
            if status < 300 and not found:
                raise Unreachable(f"{url} does not respond as a gateway does")
            return status, found
        raise Unreachable(f"no gateway listens at {', '.join(failures)}")


def _checked(url: str) -> str:
    """Return the URL. Raises ValueError if it cannot be a gateway's."""
    with contextlib.suppress(ValueError):  # invalid brackets or port
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return url
    raise ValueError(f"{url!r} is no URL of a gateway, as http://HOST:PORT")


def _connect(url: str, timeout_s: float) -> HTTPConnection:
    """Return a connection on which nothing has been sent. Raises OSError or UnicodeError."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
    connection.connect()
    return connection


def _content(body: Mapping[str, Any] | bytes | None) -> tuple[bytes | None, dict[str, str]]:
    """Return the body and its headers; bytes are YAML."""
    if body is None:
        return None, {}
    if isinstance(body, bytes):
        return body, {"Content-Type": _YAML}
    return json.dumps(body).encode(), {"Content-Type": _JSON}


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        response = json.loads(body)
    except ValueError:
        return {}
    return response if isinstance(response, dict) else {}


def _refused(status: int, response: Mapping[str, Any]) -> FaultError:
    text, problems = str(response.get("error", f"HTTP {status}")), response.get("problems")
    if status in (_UNAUTHENTICATED, _REFUSED):
        return FaultsDisabled(text) if _PROPERTY in text else FaultsForbidden(text)
    if status == _INVALID:
        return InvalidFault(problems or [text])
    if status == _NOT_FOUND:
        return UnknownTarget(text)
    return Unreachable(text) if status >= 500 else FaultError(text)
